"""Server: one process of a program that is started once per task, as TensorFlow 1.x writes it (paper §3.3)."""
from __future__ import annotations

import atexit
import contextlib
import copy
import logging
import secrets
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.chief.directory import Directory, kept_by, own_address
from workbench.cluster.chief.places import Addresses
from workbench.cluster.chief.tracker import EPOCH
from workbench.cluster.link.admission import KEY_BYTES
from workbench.cluster.link.upgrade import Hello
from workbench.cluster.task.program import Listener, ProgramHost
from workbench.cluster.wire import messages as m
from workbench.core.kernels.threads import set_threads
from workbench.core.run.target import serving
from workbench.core.trace import journal
from workbench.settings import settings
from workbench.train.cluster_spec import ClusterSpec

__all__ = ["Server", "create_local_cluster", "free_ports"]

logger = logging.getLogger("workbench")

_PROTOCOLS = {None: "tcp", "grpc": "tcp", "tcp": "tcp", "tls": "tls"}
_HEARTBEAT = 30.0      # seconds
_LOWEST_PORT = 10_000      # of free ones; those of well-known services are below
_ANSWER_SECONDS = 30.0      # that a Dask scheduler may take to hear where a process is
_END_SECONDS = 5.0    # that a parameter server may take to hear of the end of the job


class Server:
    """The task `job_name`:`task_index` of a cluster whose processes all run this program; `target` is what a Session takes.

    Every process makes a Server of the same ClusterSpec, which listens at the address that the spec gives it. A session of
    any process runs on all tasks: what its graph places on /job:ps runs in the processes of that job, whose variables and
    queues all sessions share by name. A session connects to a task when a graph first needs it, and waits up to `patience`
    seconds for a process that has not started, saying so. `join()` serves the others until the job is over. Where the spec
    names a Dask scheduler (`ClusterSpec.from_scheduler`) a process listens at any free port, and others ask that where it is.

    With the environment variable WB_CLUSTER_KEY, one secret in all processes, only who knows it is let in.
    A ConfigProto `config` holds for sessions to it that bring none; its `intra_op_parallelism_threads` are this process's.
    `protocol` is "grpc" (as old programs say) or "tcp", or "tls" with the certificates that Dask's configuration names.
    InvalidArgumentError for tasks that do not exist and addresses of other machines, AlreadyExistsError for a port in use;
    a session raises InvalidArgumentError when the ClusterSpecs of two processes disagree.
    """

    def __init__(self, server_or_cluster_def: Any, job_name: str | None = None, task_index: int | None = None,
                 protocol: str | None = None, config: Any = None, start: bool = True, patience: float = 7200.0) -> None:
        self._config = _for_sessions(config)
        if protocol not in _PROTOCOLS:
            raise errors.InvalidArgumentError(f"Server: protocol is {protocol!r}; use grpc, tcp or tls")
        given = server_or_cluster_def
        if hasattr(given, "job_name"):      # a ServerDef
            job_name, task_index, given = job_name or given.job_name, task_index or given.task_index, given.cluster
        self.cluster = ClusterSpec(given)
        self.job_name = job_name or (self.cluster.jobs[0] if len(self.cluster.jobs) == 1 else "")
        self.task_index = int(task_index or 0)
        self._address = self.cluster.task_address(self.job_name, self.task_index)
        self._scheme, self._patience = _PROTOCOLS[protocol], patience
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._made: Cluster | None = None
        if start:
            self.start()

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """A server for one process alone, at a free port: job "localhost", task 0."""
        return Server({"localhost": ["localhost:0"]}, config=config, start=start)

    def start(self) -> None:
        """Listen; for a server made with start=False. Starting twice is fine."""
        with self._lock:
            if self._listener is None:
                name, spec, kept = self.name, _named(self.cluster), kept_by(self._address)
                self._listener = Listener(name, f"{self._scheme}://{_resolved(name, self._address)}" if kept is None else
                                          own_address(self._scheme, kept[0]))
                self._directory = Directory(self._listener, spec, self._scheme, settings.cluster_key)
                self._host = ProgramHost(self._listener, name, spec, _chief(self.cluster), settings.cluster_key)
                self._say(name)
                serving.update(dict.fromkeys(self._addresses(), self))
                atexit.register(self.close)
                _warn_of_strangers(name, self._listener.address)

    def _say(self, name: str) -> None:
        assert self._listener is not None
        try:
            self._directory.say(name, _ANSWER_SECONDS)
        except BaseException:
            listener, self._listener = self._listener, None
            self._host.close(f"{name} did not start")
            listener.close()
            raise

    def _addresses(self) -> set[str]:
        """What programs write behind "grpc://" to mean this server: where the spec says that it is, and where it is."""
        assert self._listener is not None
        found = self._listener.address.rpartition("://")[2]
        host, _, port = found.rpartition(":")
        here = {f"localhost:{port}"} if host in ("127.0.0.1", "[::1]") else set()
        return here | {found} | ({self._address.rpartition("://")[2]} if not self._address.endswith(":0") else set())

    @property
    def name(self) -> str:
        """The task that this process is, as devices name it."""
        return f"/job:{self.job_name}/task:{self.task_index}"

    @property
    def target(self) -> Any:
        """What a Session takes, as it takes "grpc://host:port" in the process that the server is in; FailedPreconditionError
        before `start`."""
        with self._lock:
            if self._listener is None:
                raise errors.FailedPreconditionError("Server: it was made with start=False; call start() first")
            if self._made is None:
                self._made = _ProgramCluster(self._listener, self._directory, self.name, self.cluster, self._patience)
                self._made.session_config = self._config
            return self._made

    def join(self) -> None:
        """Serve the other processes until the job is over: the chief (task 0 of job "chief", else of "worker") has ended in
        order and so have the other workers; those that never came are waited for one minute more."""
        target = self.target                                    # refuses a server that was not started
        self._host.over.wait()
        target.pass_on_the_end()

    def close(self) -> None:
        """End what runs here, with the state of this task; closing twice is fine."""
        with self._lock:
            for address in [address for address, server in serving.items() if server is self]:
                del serving[address]
            made, self._made, listener, self._listener = self._made, None, self._listener, None
        if made is not None:
            made.close()
        if listener is not None and listener.alive:           # in a child that was forked its loop does not turn
            self._directory.withdraw(self.name)
            self._host.close(f"the process of {self.name} ended")
            listener.close()
            atexit.unregister(self.close)


def _for_sessions(config: Any) -> Any:
    """`config` without the number of threads, which the process takes now. DtypeError for what is no ConfigProto."""
    if config is None:
        return None
    if not hasattr(config, "graph_options"):
        raise errors.DtypeError(f"Server: config must be a tf.ConfigProto, but it is {config!r}")
    if config.intra_op_parallelism_threads:
        set_threads(config.intra_op_parallelism_threads)
    found = copy.deepcopy(config)
    found.intra_op_parallelism_threads = 0
    return found


def create_local_cluster(num_workers: int, num_ps: int, protocol: str | None = "grpc", worker_config: Any = None,
                         ps_config: Any = None) -> tuple[list[Server], list[Server]]:
    """(servers of the workers, servers of the parameter servers) of a cluster in this process, at free ports."""
    if num_workers < 0 or num_ps < 0:
        raise errors.InvalidArgumentError(f"create_local_cluster: {num_workers} workers and {num_ps} parameter servers; use 0 "
                                          "or more")
    addresses = [f"localhost:{port}" for port in free_ports(num_workers + num_ps)]
    spec = {job: part for job, part in (("worker", addresses[:num_workers]), ("ps", addresses[num_workers:])) if part}
    return ([Server(spec, "worker", index, protocol, worker_config) for index in range(num_workers)],
            [Server(spec, "ps", index, protocol, ps_config) for index in range(num_ps)])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now, of those that the system gives to nobody: a connection of any process has one of the
    others, which would be in use when a server comes to listen there."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            _bind_apart(one)
        return [one.getsockname()[1] for one in sockets]


def _bind_apart(one: socket.socket) -> None:
    apart = range(_LOWEST_PORT, _first_given())
    for port in secrets.SystemRandom().sample(apart, min(len(apart), 100)):
        with contextlib.suppress(OSError):
            return one.bind(("127.0.0.1", port))
    return one.bind(("127.0.0.1", 0))


def _first_given() -> int:
    """The lowest port that the system gives to those who ask for any."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):      # not Linux
        return 49152


class _ProgramCluster(Cluster):
    """The tasks of a ClusterSpec as a session of one process sees them; opened when a graph first needs them."""

    keeps_state = True
    session_config: Any = None      # of sessions that bring none

    def __init__(self, listener: Listener, directory: Directory, name: str, spec: ClusterSpec, patience: float) -> None:
        named = _named(spec)
        tasks = (name, *(task for task in named if task != name))
        self._prepare(tasks, name, "graph", _HEARTBEAT, None, 10.0, True, {}, journal)
        self._patience = patience
        self._tracker.driver, self._tracker.incarnation = name, secrets.randbits(63)
        self._place = place = Addresses(listener, directory, name, named, settings.cluster_key)
        self._ends = place.of(_chief(spec))
        self._begin(())

    def pass_on_the_end(self) -> None:
        """The chief said goodbye to those whom its graphs used; the other parameter servers hear of it here, all at once."""
        others = [task for task in self.tasks if task.startswith("/job:ps/") and task != self.home]
        with ThreadPoolExecutor(len(others) or 1, "workbench-end") as telling:
            list(telling.map(self._tell_the_end, others))

    def _tell_the_end(self, task: str) -> None:
        """Nobody tells it again: one that is slow to answer is waited for, one that does not listen has heard it."""
        if not _listens(self._ends.find(task, _END_SECONDS)):
            return
        hello = Hello(secrets.randbits(63), "chief", task, True, self._host, secrets.token_hex(KEY_BYTES))
        with contextlib.suppress(errors.Error):
            _, connection = self._ends.connect({task: hello}, self._pool, _END_SECONDS, _END_SECONDS)[task]
            connection.send(m.encode(m.Close(), hello.session, EPOCH))
            connection.close()


def _listens(address: str) -> bool:
    """Is there a process at this address? Over TLS whoever calls and says nothing would be reported, so that nobody calls."""
    scheme, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    if not port:
        return False
    try:
        if scheme != "tls":
            socket.create_connection((host.strip("[]"), int(port)), _END_SECONDS).close()
    except OSError:
        return False
    return True


def _warn_of_strangers(name: str, address: str) -> None:
    scheme, _, place = address.partition("://")
    if scheme != "tls" and not settings.cluster_key and not place.startswith(("127.", "localhost", "[::1]")):
        logger.warning("workbench: %s listens at %s without TLS or a key: whoever reaches that port can run graphs in this "
                       "process and change its variables; set WB_CLUSTER_KEY to one secret in all processes, or use "
                       "protocol='tls'", name, address)


def _named(spec: ClusterSpec) -> dict[str, str]:
    return {f"/job:{job}/task:{index}": spec.task_address(job, index)
            for job in spec.jobs for index in spec.task_indices(job)}


def _chief(spec: ClusterSpec) -> str:
    """The task that initialises and ends the job."""
    named = _named(spec)
    drivers = [task for task in named if not task.startswith("/job:ps/")] or list(named)
    return min(drivers, key=lambda task: (not task.startswith(("/job:chief/", "/job:master/")),
                                          not task.startswith("/job:worker/"), int(task.rpartition(":")[2])))


def _resolved(name: str, address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise errors.InvalidArgumentError(f"Server: {name} has the address {address!r}; write it as host:port")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), socket.AF_UNSPEC, socket.SOCK_STREAM)
    except OSError as error:
        raise errors.InvalidArgumentError(f"Server: {name} has the address {address!r}, which is not known here ({error}); "
                                          "check the name of the machine") from error
    family, *_, place = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return f"{place[0]}:{port}" if family == socket.AF_INET else f"[{place[0]}]:{port}"
