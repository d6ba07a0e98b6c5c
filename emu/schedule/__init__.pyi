from .exploring import Exploration as Exploration
from .exploring import Failure as Failure
from .exploring import explore as explore
from .exploring import replay as replay
from .replaying import Replay as Replay
from .running import Outcome as Outcome
from .trace import Step as Step
from .trace import Trace as Trace
