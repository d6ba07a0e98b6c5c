"""Where each word of the state of an agent stands (:mod:`emu.comm.hosts.state`)."""

# MPI: its functions in the order of `mpi_calls.FUNCTIONS`, then handles and numbers
ISEND = 0
IRECV = 1
TEST = 2
TESTANY = 3
GET_COUNT = 4
COMMUNICATOR = 6
BYTE = 7
REQUEST_BYTES = 8  # of the handle of a request
STATUS = 9  # address of memory for a status
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
MEMBERS_HERE = 32  # by group: its members on this host, or 0: not known yet
MEETINGS = 33  # by group, even and odd generations: who has come (`meeting`)
EARLY = 34  # arrivals that are kept
N_EARLY = 35
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
IS_HERE = 52  # whether the records of a batch are being handled
HEARD = 53  # by host: messages
HANDLED = 54  # by PE: records because of it that were done
RECEIVED = 55  # memory of the batch
COUNT = 56  # bytes of it
DONE = 57  # bytes of it that were handled
HOST = 58  # who sent it
REQUESTS = 59  # handles: for each other host, the next batch of it
ROOM = 60  # addresses of the rooms
ARRIVALS = 61  # a row for each payload: request, place, bytes
FIRST_ARRIVAL = 62
N_ARRIVALS = 63
N_SENDERS = 64  # other hosts
SENDERS = 65  # which they are, in the order of the requests
BATCHES = 66  # memory for the next batch of each
N_ASKED = 67  # how many of them have been asked for their first batch
FIRST_SENDER = 76  # where the next look begins
SENDER = 77  # whose records are being handled
APPENDED = 78  # batches that were appended to the one that is being handled
CHOSEN = 79  # where in it the first record stands whose payload has not been asked for
ROOMS_TAKEN = 80  # payloads that were received in rooms so far
ROOMS_DONE = 81  # of them, those whose records were taken
# what is told to Python
INDEX = 68  # the port whose next request it has to take
RECORD = 69  # address of the record that it has to handle,
CONTENT = 70  # of its payload,
CONTENT_BYTES = 71
WORKED_AT = 72  # when something was found to do last
LOOKS = 73  # looks since then that found nothing
SPIN_NS = 74  # for how long looks go on then


WORDS = 88
