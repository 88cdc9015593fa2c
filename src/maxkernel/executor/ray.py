"""Workers on the hosts of a Ray cluster (extra `ray`): one actor per host owns a local executor.

maxkernel has to be installed on every host, with one compiler. A node takes part when it has the
custom resource `maxkernel`; resources named `tpu-v6e` and so on say which TPU is attached.
Requests and replies cross as msgpack, as they do between processes; the driver owns the run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from concurrent.futures import Future
from typing import Any

import msgspec

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault
from maxkernel.executor.leases import HostLost, LeasedExecutor
from maxkernel.executor.limits import lease_seconds
from maxkernel.types.messages import PingRequest, Reply, Request

RESOURCE = "maxkernel"
WATCH_SECONDS = 1.0
"""How often the cluster is looked at for nodes that came or went."""

REQUESTS_PER_WORKER = 3
"""Requests that a host takes per compile worker: captures and checks run beside compiles."""

_REPLY = msgspec.msgpack.Decoder(Reply)
_REQUEST = msgspec.msgpack.Decoder(Request)


class HostActor:
    """What runs on a host: a local executor behind msgpack."""

    def __init__(self, settings: Settings, allow_no_sandbox: bool) -> None:
        from maxkernel.executor.local import local_executor

        self._executor = local_executor(settings, allow_no_sandbox)

    def sandbox(self) -> str:
        """Level of isolation there."""
        return self._executor.sandbox

    def ask(self, request: bytes) -> bytes:
        """The reply to one request; runs in one of the actor's threads."""
        return msgspec.msgpack.encode(self._executor.submit(_REQUEST.decode(request)).result())

    def close(self) -> None:
        """Ends the host's workers."""
        self._executor.close()


class RayHost:
    """Implements `leases.Host` for one node."""

    def __init__(self, node: dict[str, Any], settings: Settings, allow_no_sandbox: bool) -> None:
        ray = load_ray()
        strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
        resources: dict[str, float] = node["Resources"]
        workers = max(1, int(resources.get(RESOURCE, 1)))
        self.name = str(node["NodeID"])
        self.slots = REQUESTS_PER_WORKER * workers
        tpus = {r.replace("-", " ") for r in resources if r.startswith("tpu-")}
        self.labels = frozenset({"compile", *tpus})
        here = strategies.NodeAffinitySchedulingStrategy(node_id=self.name, soft=False)
        self._ray = ray
        self._actor: Any = (
            ray.remote(HostActor)
            .options(
                scheduling_strategy=here, max_concurrency=self.slots + 1, num_cpus=0, max_restarts=0
            )
            .remote(msgspec.structs.replace(settings, workers=workers), allow_no_sandbox)
        )

    def sandbox(self) -> str:
        """Level of isolation there; raises HostLost."""
        try:
            return self._ray.get(self._actor.sandbox.remote())
        except self._ray.exceptions.RayError as error:
            raise HostLost(str(error)) from error

    def submit(self, request: Request) -> Future[Reply]:
        """See `leases.Host.submit`."""
        reply: Future[Reply] = Future()
        reply.set_running_or_notify_cancel()
        try:
            answer: Future[bytes] = self._actor.ask.remote(msgspec.msgpack.encode(request)).future()
        except self._ray.exceptions.RayError as error:
            raise HostLost(str(error)) from error
        answer.add_done_callback(functools.partial(self._pass_on, reply))
        return reply

    def close(self) -> None:
        """Ends the actor and with it its workers."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(self._actor.close.remote(), timeout=10)
        self._ray.kill(self._actor)

    def _pass_on(self, reply: Future[Reply], answer: Future[bytes]) -> None:
        try:
            reply.set_result(_REPLY.decode(answer.result()))
        except self._ray.exceptions.RayTaskError as error:
            reply.set_exception(error)
        except self._ray.exceptions.RayError as error:
            reply.set_exception(HostLost(str(error)))
        except msgspec.MsgspecError as error:
            reply.set_exception(error)


class RayExecutor(LeasedExecutor):
    """Implements Executor on a Ray cluster; nodes may come and go while it works."""

    def __init__(self, settings: Settings, address: str, allow_no_sandbox: bool = False) -> None:
        """`address`: a cluster's, `auto` for the one that this machine belongs to.

        Raises EnvironmentFault when Ray or the cluster is missing, or when no node takes part.
        """
        super().__init__(lambda request: lease_seconds(settings, request))
        self._settings, self._allow = settings, allow_no_sandbox
        self._ray = load_ray()
        self._refused: dict[str, str] = {}
        self._mine = not self._ray.is_initialized()
        if self._mine:
            try:
                self._ray.init(address=address, log_to_driver=False, logging_level="error")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise EnvironmentFault(
                    f"no Ray cluster at {address!r}: {error}", "start one: `ray start --head`"
                ) from error
        self._look()
        if not self.hosts:
            self.close()
            why = "; ".join(self._refused.values()) or f"no node has the resource {RESOURCE!r}"
            raise EnvironmentFault(
                f"no host of the Ray cluster can work: {why}",
                f"start nodes with --resources '{{\"{RESOURCE}\": 2}}' (compile workers)",
            )
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="ray-nodes", daemon=True)
        self._watcher.start()

    def warm(self) -> list[Future[Reply]]:
        """Pings: joining has warmed every host already."""
        return [self.submit(PingRequest())]

    def close(self) -> None:
        """See Executor.close; leaves the cluster as it was."""
        watcher = getattr(self, "_watcher", None)
        if watcher is not None:
            self._stop.set()
            watcher.join(10)
        super().close()
        if self._mine and self._ray.is_initialized():
            self._ray.shutdown()

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_SECONDS):
            self._look()

    def _look(self) -> None:
        """Takes in nodes that are new, and drops those that are gone."""
        nodes = {str(n["NodeID"]): n for n in self._ray.nodes() if n["Alive"]}
        for name in self.hosts:
            if name not in nodes:
                self.drop(name)
        for name, node in nodes.items():
            if name in self.hosts or name in self._refused or RESOURCE not in node["Resources"]:
                continue
            host = RayHost(node, self._settings, self._allow)
            try:
                why = self.join(host)
                self._level = min(self._level, host.sandbox())
            except HostLost as error:
                why = f"{name} was lost while it joined: {error}"
            if why:
                self._refused[name] = why
                host.close()


def load_ray() -> Any:
    """The module ray; raises EnvironmentFault where the extra is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise EnvironmentFault(
            "Ray is not installed", "pip install 'maxkernel[ray]', here and on every host"
        ) from error
