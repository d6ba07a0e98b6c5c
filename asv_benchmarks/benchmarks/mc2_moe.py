"""The operators of a mixture of experts."""

from rows.team import Team, over_link

from .common import TeamBenchmark, unit


class GroupedProducts(TeamBenchmark):
    """1024 rows a PE, 1024 × 1024 weights, 8 experts a PE, fp16."""

    params = (["there", "there_unfused", "back", "back_unfused"], ["", "100MB/s,5us"])
    param_names = ("way", "link")

    def setup(self, way, link):
        self.team = Team(over_link(link) if link else "emu", self.n_pes)

    @unit("us")
    def track_product(self, way, link):
        return self.measure("moe_product", way=way, rows=1024, depth=1024, columns=1024)


class DispatchAndCombine(TeamBenchmark):
    """512 tokens of 2048 fp16 elements a PE, 4 of 16 experts each."""

    sizes = {"tokens": 512, "depth": 2048}  # noqa: RUF012 - asv reads attributes of the class

    @unit("us")
    def track_dispatch(self):
        return self.measure("moe_layer", half="dispatch", quant_mode=0, **self.sizes)

    @unit("us")
    def track_dispatch_int8(self):
        return self.measure("moe_layer", half="dispatch", quant_mode=2, **self.sizes)

    @unit("us")
    def track_combine(self):
        return self.measure("moe_layer", half="combine", quant_mode=0, **self.sizes)
