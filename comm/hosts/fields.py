"""Where each word of the state of an agent stands (:mod:`emu.comm.hosts.state`)."""

# MPI: its functions in the order of `mpi_calls.FUNCTIONS`, then handles and numbers
ISEND = 0
IRECV = 1
TEST = 2
IMPROBE = 3
IMRECV = 4
GET_COUNT = 5
COMMUNICATOR = 6
BYTE = 7
ANY_SOURCE = 8
STATUS = 9  # address of memory for a status
SOURCE = 10  # where the sender's rank stands in it
SCRATCH = 11  # address of two words for what MPI returns
ERROR = 12  # what MPI returned last that was no success
# the host
N_HOSTS = 16
N_LOCAL = 17
FIRST_LOCAL = 18
PORTS = 19
N_PORTS = 20
TAKEN = 21  # by port: requests that were taken
HOST_OF = 22  # by PE
BLOCKS = 23  # by PE of another host: its block here
ME = 24  # the agent's own block
SEGMENT = 25
HEAPS = 26
STRIDE = 27
GROUPS = 28
GROUP_BYTES = 29
ADD_DENSE = 30  # native address of the kernel
HEADER = 31  # what that takes for an ndarray
# sending
OPEN = 36  # by host: the memory of the batch that is being filled, or 0
USED = 37  # by host: how much of it is
SENT = 39  # by PE: records that were sent because of it, but those of agents for themselves
FREE = 40  # addresses of memory for batches
N_FREE = 41
SENDING = 42  # a ring of (request, memory that is free then, or 0)
SENDING_MASK = 43
SENT_HEAD = 44  # messages that have gone
SENT_TAIL = 45  # messages that were sent
REPLY_RECORD = 46
PAYLOAD_AT = 47  # when the last large payload began to go
# receiving
STEP = 52  # one of the steps below
HEARD = 53  # by host: messages
HANDLED = 54  # by PE: records because of it that were done
RECEIVED = 55  # memory of the batch
COUNT = 56  # bytes of it
DONE = 57  # bytes of it that were handled
HOST = 58  # who sent it
REQUEST = 59
ROOM = 60  # addresses of the rooms
ARRIVALS = 61  # a row for each payload: request, place, bytes
FIRST_ARRIVAL = 62
N_ARRIVALS = 63
# what is told to Python
INDEX = 68  # the port whose next request it has to take
RECORD = 69  # address of the record that it has to handle,
CONTENT = 70  # of its payload,
CONTENT_BYTES = 71
WORKED_AT = 72  # when something was found to do last
LOOKS = 73  # looks since then that found nothing
SPIN_NS = 74  # for how long looks go on then


WORDS = 80
