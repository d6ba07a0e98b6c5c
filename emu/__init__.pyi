from . import trace as trace
from .check.reports import CheckError as CheckError
from .comm.check_options import Checks as Checks
from .comm.errors import CommError as CommError
from .comm.errors import DeadlockError as DeadlockError
from .comm.errors import PEDiedError as PEDiedError
from .comm.errors import PeerFailedError as PeerFailedError
from .comm.errors import SymmetricMemoryError as SymmetricMemoryError
from .comm.fault_options import Faults as Faults
from .comm.link_model import Link as Link
from .comm.ops import AtomicOp as AtomicOp
from .comm.ops import Cmp as Cmp
from .comm.process.launch_options import LaunchOptions as LaunchOptions
from .comm.process.launching import launch as launch
from .comm.schedule_options import Schedule as Schedule
from .comm.schedule_options import Switch as Switch
from .comm.world.array import SymmetricArray as SymmetricArray
from .comm.world.current import world as world
from .comm.world.group import Group as Group
from .comm.world.world import World as World
from .schedule.exploring import Exploration as Exploration
from .schedule.exploring import explore as explore

__version__: str
