"""Settings of the runtime, which programs reach as ``triton.knobs``.

A setting that has a variable of the environment is read from there each time, until the program assigns a value;
assigning also sets the variable, for child processes (unless :data:`propagate_env` is False). ``del``, and
assigning :data:`env`, go back to the environment. *Kept* settings hold what is assigned to them and change
nothing: they are about devices and compilers that are not here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sysconfig
from collections.abc import Callable, Container, Iterator
from typing import Any, Generic, Self, TypeVar, cast

from emu.kernels.core import environment
from emu.kernels.core.messages import shown
from emu.tile.counting.state import Counting
from emu.triton.knob_values import CompileTimes, HookChain, NvidiaTool

__all__ = [
    "CompileTimes",
    "Env",
    "HookChain",
    "NvidiaTool",
    "amd",
    "autotuning",
    "base_knobs",
    "build",
    "cache",
    "compilation",
    "env",
    "env_base",
    "env_bool",
    "env_class",
    "env_int",
    "env_nvidia_tool",
    "env_opt_bool",
    "env_opt_str",
    "env_str",
    "env_str_callable_default",
    "language",
    "nvidia",
    "propagate_env",
    "proton",
    "redis",
    "refresh_knobs",
    "runtime",
]

S = TypeVar("S")  # what a program may assign
G = TypeVar("G")  # what it reads

_TRUE = frozenset(("1", "true", "on", "yes", "y"))
_UNSET = object()
variables: Container[object] = getattr(os.environ, "_data", os.environ)
"""Names of the environment's variables as the system has them: ``os.environ`` takes a microsecond to say no."""


def variable_key(name: str) -> object:
    """Return the name of a variable as :data:`variables` has it."""
    return os.environ.encodekey(name) if variables is not os.environ else name


class Env:
    """Class of :data:`env`."""


env = Env()
"""Value that makes a setting follow its variable again: ``knobs.cache.dir = knobs.env``."""

propagate_env = True
"""Whether assigning a setting also sets its variable of the environment."""


def _export(key: str, value: object) -> None:
    """Set or remove a variable; values that have no text there (classes) leave it as it is."""
    if not propagate_env or not isinstance(value, (bool, str, int, type(None))):
        return
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = str(int(value)) if isinstance(value, bool) else str(value)


class env_base(Generic[S, G]):
    """Base of settings with a variable of the environment; a descriptor of a class of settings.

    Args:
        key: Name of the variable.
    """

    def __init__(self, key: str) -> None:
        self.key = key

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: object, owner: type | None = None) -> G:
        value = vars(obj).get(self.name, _UNSET)
        return self.get() if value is _UNSET else self.transform(cast("S", value))

    def __set__(self, obj: object, value: S | Env) -> None:
        if isinstance(value, Env):
            vars(obj).pop(self.name, None)
            return
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{self.name} must be without null characters, but got {value!r:.60}")
        vars(obj)[self.name] = value
        _export(self.key, value)

    def __delete__(self, obj: object) -> None:
        vars(obj).pop(self.name, None)

    def get(self) -> G:
        """Return what the environment says, or the default."""
        raise NotImplementedError

    def transform(self, value: S) -> G:
        """Return what is read where a value was assigned."""
        return cast("G", value)


class env_str(env_base[str, str]):
    """A text with a default."""

    def __init__(self, key: str, default: str) -> None:
        super().__init__(key)
        self.default = default

    def get(self) -> str:
        """Return what the environment says, or the default."""
        return os.environ.get(self.key, self.default)


class env_choice(env_str):
    """One of several texts, the first by default.

    Args:
        key: Name of the variable. An empty one counts as unset.
        choices: The texts.
    """

    def __init__(self, key: str, choices: tuple[str, ...]) -> None:
        super().__init__(key, choices[0])
        self.choices = choices

    def __set__(self, obj: object, value: str | Env) -> None:
        if not isinstance(value, Env) and value not in self.choices:
            text = shown(value, with_type=True)
            raise ValueError(f"knobs: {self.name} must be one of {self._named()}, but got {text}")
        super().__set__(obj, value)

    def get(self) -> str:
        """Return what the environment says, or the default.

        Raises:
            RuntimeError: The variable is none of the choices.
        """
        found = super().get() or self.default
        if found not in self.choices:
            raise RuntimeError(f"{self.key} must be one of {self._named()}, but is {found!r:.60}")
        return found

    def _named(self) -> str:
        return ", ".join(map(repr, self.choices))


class env_str_callable_default(env_base[str, str]):
    """A text whose default is worked out when it is read."""

    def __init__(self, key: str, default_factory: Callable[[], str]) -> None:
        super().__init__(key)
        self.default_factory = default_factory

    def get(self) -> str:
        """Return what the environment says, or the default."""
        found = os.environ.get(self.key)
        return self.default_factory() if found is None else found


class env_bool(env_base[bool, bool]):
    """A switch; ``1``, ``true``, ``on``, ``yes`` and ``y`` in any case mean True."""

    def __init__(self, key: str, default: bool = False) -> None:
        super().__init__(key)
        self.default = default
        self._encoded = variable_key(key)

    def __set__(self, obj: object, value: bool | Env) -> None:
        given: object = value  # programs assign what they like
        if not isinstance(given, (bool, int, str, Env, type(None))):
            text = shown(given, with_type=True)
            raise TypeError(f"knobs: {self.name} must be a bool, but got {text}")
        super().__set__(obj, value)

    def get(self) -> bool:
        """Return what the environment says, or the default."""
        if self._encoded not in variables:
            return self.default
        return os.environ.get(self.key, "").lower() in _TRUE


class env_int(env_base[int, int]):
    """An integer with a default."""

    def __init__(self, key: str, default: int = 0) -> None:
        super().__init__(key)
        self.default = default

    def get(self) -> int:
        """Return what the environment says, or the default.

        Raises:
            RuntimeError: The variable is not an integer.
        """
        found = os.environ.get(self.key)
        try:
            return self.default if found is None else int(found)
        except ValueError as error:
            raise RuntimeError(f"{self.key} must be an integer, but is {found!r:.60}") from error


class env_opt_str(env_base[str | None, str | None]):
    """A text, or None."""

    def get(self) -> str | None:
        """Return what the environment says, or None."""
        return os.environ.get(self.key)


class env_opt_bool(env_base[bool | None, bool | None]):
    """A switch, or None."""

    def get(self) -> bool | None:
        """Return what the environment says, or None."""
        found = os.environ.get(self.key)
        return None if found is None else found.lower() in _TRUE


class env_class(env_base[type | None, type | None]):
    """A class, which the variable spells ``module:class``, or None.

    Args:
        key: Name of the variable.
        type: Name of a class that it must be or inherit from.
    """

    def __init__(self, key: str, type: str) -> None:
        super().__init__(key)
        self.type = type

    def get(self) -> type | None:
        """Return what the environment says, or None.

        Raises:
            RuntimeError: The variable does not name such a class.
        """
        found = os.environ.get(self.key)
        if found is None:
            return None
        module, colon, name = found.partition(":")
        if not colon:
            raise RuntimeError(f"{self.key} must be of the form module:class, but is {found!r}")
        cls: Any = getattr(importlib.import_module(module), name, None)
        if not isinstance(cls, type) or self.type not in (base.__name__ for base in cls.mro()):
            raise RuntimeError(f"{self.key} must name a {self.type}, but is {found!r}")
        return cls


class env_nvidia_tool(env_base[str, NvidiaTool]):
    """A program of the CUDA toolkit, assigned by its path."""

    def __init__(self, binary: str) -> None:
        self.binary = binary + (sysconfig.get_config_var("EXE") or "")
        folder = os.path.join(os.path.dirname(__file__), "backends", "nvidia", "bin")
        self.default_path = os.path.join(folder, self.binary)
        super().__init__(f"TRITON_{self.binary.upper().replace('-', '_')}_PATH")

    def get(self) -> NvidiaTool:
        """Return the program that the environment names.

        Raises:
            RuntimeError: There is none; none comes with emu.
        """
        return self.transform(os.environ.get(self.key, ""))

    def transform(self, value: str) -> NvidiaTool:
        """Return the program at a path.

        Raises:
            RuntimeError: There is none.
        """
        for path in (value, self.default_path):
            tool = NvidiaTool.from_path(path) if path else None
            if tool is not None:
                return tool
        raise RuntimeError(
            f"Cannot find {self.binary}: emu has no tools of NVIDIA's; {self.key} may name one"
        )


class base_knobs:
    """A group of settings.

    As in Triton a program may assign other names as well; they are kept, and change nothing.
    """

    def __getattr__(self, name: str) -> Any:  # only for names that are not set
        known = sorted(n for n in dir(type(self)) if not n.startswith("_"))
        raise AttributeError(f"there is no setting {name!r}; there are {known}")

    @property
    def knob_descriptors(self) -> dict[str, env_base[Any, Any]]:
        """The settings that have a variable of the environment, by name."""
        return {n: v for n, v in vars(type(self)).items() if isinstance(v, env_base)}

    @property
    def knobs(self) -> dict[str, object]:
        """Values of the settings that have a variable of the environment or were assigned, by name."""
        return {n: getattr(self, n) for n in (*self.knob_descriptors, *vars(self))}

    def copy(self) -> Self:
        """Return another group with the values that are assigned in this one."""
        other = type(self)()
        vars(other).update(vars(self))
        return other

    def reset(self) -> Self:
        """Make all settings that have a variable follow the environment again; return the group."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Undo what is assigned inside, at its end, in the environment too."""
        keys = [knob.key for knob in self.knob_descriptors.values()]
        variables = {key: os.environ.get(key) for key in keys}
        before = dict(vars(self))
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
            for key, value in variables.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


class build_knobs(base_knobs):
    """Settings of ``triton.runtime.build``, which compiles C sources of programs.

    Attributes:
        cc: The C compiler. Default: ``CC``.
        cudacrt_path: Folder of headers. Default: ``TRITON_CUDACRT_PATH``.
        cudart_path: Folder of headers. Default: ``TRITON_CUDART_PATH``.
        impl: Called instead of the compiler, if it is set:
            ``impl(name, source, folder, library_dirs, include_dirs, libraries, flags)`` returns a path.
    """

    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")
    impl: Callable[..., str] | None = None

    @property
    def backend_dirs(self) -> set[str]:
        """The folders of headers that are set."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    """Settings of a remote cache; kept.

    Attributes:
        key_format: Default: ``TRITON_REDIS_KEY_FORMAT``, else ``triton:{key}:{filename}``.
        host: Default: ``TRITON_REDIS_HOST``, else ``localhost``.
        port: Default: ``TRITON_REDIS_PORT``, else 6379.
    """

    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    """Folders of ``triton.runtime.cache.FileCacheManager``, which programs use for files of their own.

    Compiled kernels are kept where ``EMU_CACHE_DIR`` says.

    Attributes:
        home_dir: Default: ``TRITON_HOME``, else the user's home.
        dump_dir: Default: ``TRITON_DUMP_DIR``, else ``.triton/dump`` in ``home_dir``.
        override_dir: Default: ``TRITON_OVERRIDE_DIR``, else ``.triton/override`` in ``home_dir``.
        dir: Default: ``TRITON_CACHE_DIR``, else ``.triton/cache`` in ``home_dir``.
        manager_class: Used instead of ``FileCacheManager``. Default: ``TRITON_CACHE_MANAGER``.
        remote_manager_class: Kept. Default: ``TRITON_REMOTE_CACHE_BACKEND``.
    """

    home_dir = env_str("TRITON_HOME", os.path.expanduser("~/"))
    dump_dir = env_str_callable_default("TRITON_DUMP_DIR", lambda: cache.get_triton_dir("dump"))
    override_dir = env_str_callable_default(
        "TRITON_OVERRIDE_DIR", lambda: cache.get_triton_dir("override")
    )
    dir = env_str_callable_default("TRITON_CACHE_DIR", lambda: cache.get_triton_dir("cache"))
    manager_class = env_class("TRITON_CACHE_MANAGER", "CacheManager")
    remote_manager_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend")

    def get_triton_dir(self, dirname: str) -> str:
        """Return the path of a folder in ``.triton`` of ``home_dir``."""
        return os.path.join(self.home_dir, ".triton", dirname)


class compilation_knobs(base_knobs):
    """Settings of compilation; most are kept.

    Attributes:
        override: Default: ``TRITON_KERNEL_OVERRIDE``.
        dump_ir: Default: ``TRITON_KERNEL_DUMP``.
        dump_ir_extract_di_local_variables: Default: ``LLVM_EXTRACT_DI_LOCAL_VARIABLES``.
        store_binary_only: Default: ``TRITON_STORE_BINARY_ONLY``.
        always_compile: Load no kernel from disk. Default: ``TRITON_ALWAYS_COMPILE``.
        use_ir_loc: Default: ``USE_IR_LOC``.
        enable_asan: Default: ``TRITON_ENABLE_ASAN``.
        disable_line_info: Default: ``TRITON_DISABLE_LINE_INFO``.
        front_end_debugging: Show emu's own frames in tracebacks of compile errors. Default:
            ``TRITON_FRONT_END_DEBUGGING``.
        allow_non_constexpr_globals: Let kernels use any global. Default:
            ``TRITON_ALLOW_NON_CONSTEXPR_GLOBALS``.
        instrumentation_mode: Default: ``TRITON_INSTRUMENTATION_MODE``, else ``""``.
        fpsan_homomorphic_casts: Default: ``TRITON_FPSAN_HOMOMORPHIC_CASTS``.
        listener: Called after each compilation, and each time a kernel comes from disk, with ``src``,
            ``metadata``, ``metadata_group``, ``times`` (:class:`CompileTimes`) and ``cache_hit``; or None.
    """

    override = env_bool("TRITON_KERNEL_OVERRIDE")
    dump_ir = env_bool("TRITON_KERNEL_DUMP")
    dump_ir_extract_di_local_variables = env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES")
    store_binary_only = env_bool("TRITON_STORE_BINARY_ONLY")
    always_compile = env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc = env_opt_str("USE_IR_LOC")
    enable_asan = env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "")
    fpsan_homomorphic_casts = env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS")
    listener: Callable[..., object] | None = None


class autotuning_knobs(base_knobs):
    """Settings of the autotuner.

    Attributes:
        mode: ``"full"``: measure in each process, as Triton does. ``"cached"``: measure, and keep the times on disk.
            ``"first"``: measure nothing, take the first configuration that compiles. Default: ``EMU_AUTOTUNE``, or full.
        cache: Keep measurements on disk. Default: ``TRITON_CACHE_AUTOTUNING``.
        print: Print the chosen configuration. Default: ``TRITON_PRINT_AUTOTUNING``.
        listener: Called with every choice; or None.
    """

    mode = env_choice("EMU_AUTOTUNE", ("full", "cached", "first"))
    cache = env_bool("TRITON_CACHE_AUTOTUNING")
    print = env_bool("TRITON_PRINT_AUTOTUNING")
    listener: Callable[..., object] | None = None


class runtime_knobs(base_knobs):
    """Settings of launches.

    Attributes:
        interpret: Run kernels interpreted. Default: ``TRITON_INTERPRET``.
        debug: Check ``device_assert`` in every kernel. Default: ``TRITON_DEBUG``.
        check: What kernels check as they run: None, ``"bounds"``, ``"bounds:all"``, ``"uninit"``, ``"race"``,
            ``"race:all"``, ``"streams"``, or several with commas between them. Default: ``EMU_CHECK`` when emu.triton is imported.
        override_arch: Kept. Default: ``TRITON_OVERRIDE_ARCH``.
        launch_enter_hook: Called before every launch, with :class:`~emu.triton.runtime.compiled.LaunchMetadata`.
        launch_exit_hook: Called after every launch, the last added first.
        kernel_load_start_hook: Called before the first launch of a compiled kernel with ``module``, ``function``
            (both None), ``name``, ``metadata_group`` and ``hash``.
        kernel_load_end_hook: Called after that, the last added first; ``module`` and ``function`` are the kernel.
        kernel_unload_hook: Called when a compiled kernel that was loaded is freed, as ``kernel_load_end_hook``.
        jit_cache_hook: Called before a kernel is compiled; or None.
        jit_post_compile_hook: Called after a kernel was compiled; or None.
        add_stages_inspection_hook: Kept.
        sanitize_overflow: Kept.
    """

    interpret = env_bool("TRITON_INTERPRET")
    debug = env_bool("TRITON_DEBUG")
    check: str | None = environment.check() or (
        "count" if Counting.sink is not None else None
    )  # read once: each launch looks at it
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    launch_enter_hook: HookChain[Callable[..., object]] = HookChain()
    launch_exit_hook: HookChain[Callable[..., object]] = HookChain(reversed=True)
    kernel_load_start_hook: HookChain[Callable[..., object]] = HookChain()
    kernel_load_end_hook: HookChain[Callable[..., object]] = HookChain(reversed=True)
    kernel_unload_hook: HookChain[Callable[..., object]] = HookChain()
    jit_cache_hook: Callable[..., object] | None = None
    jit_post_compile_hook: Callable[..., object] | None = None
    add_stages_inspection_hook: Callable[..., object] | None = None
    sanitize_overflow: bool = True

    def __setattr__(self, name: str, value: object) -> None:
        if name.endswith("_hook") and value is not None and not callable(value):
            raise TypeError(f"{name} must be a function or None, but got {value!r:.60}")
        super().__setattr__(name, value)


class language_knobs(base_knobs):
    """Settings of the language; those that change something are read when a kernel is compiled.

    Attributes:
        apply_input_precision: Round operands of fp32 products as ``tl.dot(input_precision=)`` says. Default:
            ``TRITON_APPLY_INPUT_PRECISION``.
        fp32_default: With it the precision of products that name none; None: ``"tf32"``. Default:
            ``TRITON_F32_DEFAULT``.
        allow_bf16_native: Multiply bf16 by the CPU's own instruction, where a product does not say
            ``input_precision="ieee"``; results then differ between CPUs. Default: ``EMU_ALLOW_BF16_NATIVE``.
        default_fp_fusion: Kept. Default: ``TRITON_DEFAULT_FP_FUSION``, else True.
        strict_reduction_ordering: Kept. False.
    """

    apply_input_precision = env_bool("TRITON_APPLY_INPUT_PRECISION")
    fp32_default = env_opt_str("TRITON_F32_DEFAULT")
    allow_bf16_native = env_bool("EMU_ALLOW_BF16_NATIVE")
    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", True)
    strict_reduction_ordering: bool = False


class nvidia_knobs(base_knobs):
    """Settings of NVIDIA's back end; kept. The tools raise RuntimeError where the machine has none."""

    cuobjdump = env_nvidia_tool("cuobjdump")
    nvdisasm = env_nvidia_tool("nvdisasm")
    ptxas = env_nvidia_tool("ptxas")
    ptxas_blackwell = env_nvidia_tool("ptxas-blackwell")
    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP")
    disable_ptxas_opt = env_bool("DISABLE_PTXAS_OPT")
    ptxas_options = env_opt_str("PTXAS_OPTIONS")
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION")
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH")


class amd_knobs(base_knobs):
    """Settings of AMD's back end; kept."""

    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    buffer_ops_analyze_small_tensor_range = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE")
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_opt_bool("TRITON_HIP_USE_ASYNC_COPY")
    use_coexec_scheduler = env_opt_bool("TRITON_HIP_USE_COEXEC_SCHEDULER")
    use_expert_scheduling = env_opt_bool("TRITON_HIP_USE_EXPERT_SCHEDULING")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")
    dump_mir = env_opt_str("TRITON_DUMP_MIR")
    swap_mir = env_opt_str("TRITON_SWAP_MIR")
    swap_mir_enable_misched = env_bool("TRITON_SWAP_MIR_ENABLE_MISCHED")


class proton_knobs(base_knobs):
    """Settings of ``triton.profiler``; kept but for ``disable``.

    Attributes:
        disable: Make ``triton.profiler.start`` do nothing. Default: ``TRITON_PROTON_DISABLE``.
    """

    disable = env_bool("TRITON_PROTON_DISABLE")
    cupti_lib_dir = env_opt_str("TRITON_CUPTI_LIB_PATH")
    cupti_lib_blackwell_dir = env_opt_str("TRITON_CUPTI_LIB_BLACKWELL_PATH")
    rocprofiler_sdk_include_path = env_opt_str("TRITON_ROCPROFILER_SDK_INCLUDE_PATH")
    rocprofiler_sdk_lib_path = env_opt_str("TRITON_ROCPROFILER_SDK_LIB_PATH")
    profile_buffer_size = env_int("TRITON_PROFILE_BUFFER_SIZE", 1 << 26)
    profile_metric_buffer_size = env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 1 << 26)
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True)
    enable_hw_trace = env_bool("TRITON_ENABLE_HW_TRACE")


build = build_knobs()
redis = redis_knobs()
cache: cache_knobs = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()


def refresh_knobs() -> None:
    """Read the environment again; here every setting does so each time."""
