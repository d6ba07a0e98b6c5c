"""Names that other libraries import or look for: those that are here, and those whose absence they must notice."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

HERE = {
    # torch._inductor, torch.utils._triton, torch._higher_order_ops
    "": "Config JITFunction KernelInterface TensorWrapper MockTensor OutOfResources __version__ autotune "
    "heuristics jit cdiv next_power_of_2 compile set_allocator constexpr_function knobs reinterpret "
    "AsyncCompileMode aggregate must_use_result compiler backends tools errors",
    "backends": "Backend BaseBackend DriverBase backends",
    "backends.compiler": "BaseBackend GPUTarget Language",
    "backends.driver": "DriverBase GPUDriver",
    "compiler": "ASTSource CompiledKernel CompilationError IRSource LazyDict compile make_backend",
    "compiler.compiler": "ASTSource BaseBackend CompiledKernel GPUTarget IRSource Language LazyDict OutOfResources "
    "compile driver knobs make_backend max_shared_mem triton_key",
    "compiler.errors": "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct",
    "runtime": "Autotuner Config Heuristics InterpreterError JITFunction KernelInterface driver",
    "runtime._allocation": "NullAllocator set_allocator set_profile_allocator _allocator",
    "runtime._async_compile": "AsyncCompileMode FutureKernel active_mode",
    "runtime.autotuner": "Autotuner Config Heuristics OutOfResources PTXASError AutotunerError autotune heuristics",
    "runtime.build": "_build compile_module_from_src platform_key",
    # vLLM's and SGLang's cache managers
    "runtime.cache": "CacheManager FileCacheManager RemoteCacheBackend RemoteCacheManager RedisRemoteCacheBackend "
    "default_cache_dir default_dump_dir default_override_dir get_cache_manager get_dump_manager "
    "get_override_manager knobs triton_key _base32",
    "runtime.errors": "AutotunerError InterpreterError OutOfResources PTXASError",
    "runtime.interpreter": "InterpretedFunction",
    # FlagGems' libentry, Helion, triton-viz
    "runtime.jit": "ConstexprFunction JITCallable JITFunction JitFunctionInfo KernelInterface KernelParam MockTensor T "
    "TensorWrapper constexpr_function driver find_paths_if get_iterable_path jit knobs mangle_type "
    "native_specialize_impl reinterpret type_canonicalisation_dict",
    "language.core": "_aggregate _unwrap_if_constexpr base_type base_value block_type builtin constexpr dtype extern "
    "extern_elementwise is_builtin pointer_type range static_range str_to_ty tensor tuple view void",
    # aiter, flash-linear-attention, unsloth
    "language.standard": "_argmax_combine _argmax_combine_tie_break_fast _argmax_combine_tie_break_left "
    "_argmin_combine _argmin_combine_tie_break_fast _argmin_combine_tie_break_left _elementwise_max "
    "_elementwise_min _log2 _or_combine _prod_combine _sum_combine _xor_combine cdiv flip interleave "
    "ravel sigmoid softmax sort sum swizzle2d topk zeros zeros_like",
    "language.extra": "cpu cuda hip intel libdevice register_extern",
    "language.extra.cpu.libdevice": "exp tanh",
    "language.extra.cuda": "globaltimer libdevice num_threads num_warps smid gdc_wait gdc_launch_dependents",
    "language.extra.cuda.libdevice": "exp tanh",
    "language.extra.hip.libdevice": "exp tanh",
    "language.extra.intel.libdevice": "exp tanh",
    "language.extra.libdevice": "exp tanh",
    "language.math": "exp rsqrt fma umulhi div_rn log1p tanh",
    "language.random": "philox philox_impl rand uint_to_uniform_float",
    "language.target_info": "current_target is_cuda is_hip is_xpu cuda_capability_geq",
    "tools.disasm": "extract get_sass",
    "tools.mxfp": "MXFP4Tensor MXScaleTensor",
    "tools.ragged_tma": "create_ragged_descriptor",
    "tools.tensor_descriptor": "TensorDescriptor",
    "testing": "Benchmark Mark assert_close do_bench do_bench_cudagraph do_bench_proton get_dram_gbps "
    "get_max_simd_tflops get_max_tensorcore_tflops nvsmi perf_report",
    "profiler": "activate deactivate finalize scope start",
    "_utils": "canonicalize_dtype find_paths_if get_iterable_path is_power_of_two validate_block_shape",
    "_internal_testing": "is_cuda is_hip is_interpreter",
    "backends.nvidia.compiler": "min_dot_size",
    "_C.libtriton": "getenv getenv_bool nvidia native_specialize_impl",
}
"""Names by module, those of ``triton`` itself under an empty one."""


def _find(module: str, name: str) -> Any:
    return getattr(importlib.import_module(".".join(filter(None, ("emu.triton", module)))), name)


@pytest.mark.parametrize("module", HERE)
def test_names_that_libraries_import(module: str) -> None:
    for name in HERE[module].split():
        try:
            _find(module, name)
        except AttributeError:  # a submodule that nothing has imported yet
            importlib.import_module(".".join(filter(None, ("emu.triton", module, name))))


ABSENT = (
    "_C.libtriton.ir",
    "_C.libtriton.llvm",
    "_C.libtriton.passes",
    "backends.amd",
    "backends.amd.compiler",
    "backends.nvidia.driver",
    "compiler.code_generator",
    "experimental.gluon.language.amd",
    "experimental.gluon.language.nvidia",
    "language.extra.mlu",
    "language.extra.tlx",
    "language.extra.xpu",
    "language.semantic",
    "ops",
    "tools.experimental_descriptor",
)
"""Modules of one device, of MLIR, or of releases before 3.9: libraries try to import them."""


@pytest.mark.parametrize("module", ABSENT)
def test_modules_that_are_absent_say_so_by_an_import_error(module: str) -> None:
    with pytest.raises(ImportError):
        importlib.import_module(f"emu.triton.{module}")


@pytest.mark.parametrize(
    "name",
    [
        "compiler.compiler.AttrsDescriptor",
        "backends.compiler.AttrsDescriptor",
        "runtime.errors.IntelGPUError",
        "runtime.jit.create_specialize_impl",
        "runtime.jit.specialize_impl",
    ],
)
def test_names_of_other_releases_and_forks_are_no_attributes(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    with pytest.raises(AttributeError):
        _find(module, attribute)


def test_descriptors_are_reached_without_an_import_of_their_own() -> None:
    program = "import emu.triton as triton; print(triton.tools.tensor_descriptor.TensorDescriptor)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "TensorDescriptor" in done.stdout, done.stderr
