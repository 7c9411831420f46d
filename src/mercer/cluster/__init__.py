"""Work on many threads or machines in three verbs: place blocks, map a function over them, sum the results in order."""

from mercer.cluster.joining import Largest as Largest
from mercer.cluster.joining import Least as Least
from mercer.cluster.joining import join as join
from mercer.cluster.lazy_tables import address_of as address_of
from mercer.cluster.lazy_tables import by_blocks as by_blocks
from mercer.cluster.lazy_tables import chosen_workers as chosen_workers
from mercer.cluster.lazy_tables import is_array as is_array
from mercer.cluster.lazy_tables import is_lazy as is_lazy
from mercer.cluster.lazy_tables import loaded as loaded
from mercer.cluster.lazy_tables import while_wanted as while_wanted
from mercer.cluster.lazy_tables import workers_of as workers_of
from mercer.cluster.threads import ThreadWorkers as ThreadWorkers
from mercer.cluster.workers import ClusterError as ClusterError
from mercer.cluster.workers import Workers as Workers
