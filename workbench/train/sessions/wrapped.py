"""Sessions around sessions: with hooks, a coordinator, or a new session after a loss. Programs test their hooks with them."""
from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.core import trace
from workbench.train.sessions.asked import add_feeds, checked, traced
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from workbench.train.sessions.recovery import LOSSES, Recovery

__all__ = ["CoordinatedSession", "HookedSession", "RecoverableSession", "WrappedSession", "created", "run_with",
           "told"]

logger = logging.getLogger("workbench")


def run_with(hooks: Sequence[SessionRunHook], session: Any, asked: SessionRunArgs, options: Any = None,
             run_metadata: Any = None, once: contextlib.AbstractContextManager[Any] | None = None) -> tuple[Any, bool]:
    """One step with what the hooks fetch and feed besides: (its values, whether a hook wants to stop). RuntimeError where a
    tensor is fed twice; the session's own run stands in `once`."""
    context = SessionRunContext(asked, session)
    wanted = {number: args for number, hook in enumerate(hooks)
              if (args := checked(hook, hook.before_run(context))) is not None}
    feeds = dict(asked.feed_dict or {})
    for number, args in wanted.items():
        add_feeds(feeds, args.feed_dict or {}, hooks[number])
    extra = {number: [] if args.fetches is None else args.fetches for number, args in wanted.items()}
    options, run_metadata = traced([args.options for args in wanted.values()], options, run_metadata)
    with once or contextlib.nullcontext():
        values, more = session.run([asked.fetches, extra], feeds, options, run_metadata)
    for number, hook in enumerate(hooks):
        hook.after_run(context, SessionRunValues(more.get(number), options, run_metadata))
    return values, context.stop_requested


def created(creator: Any, begun: Callable[[], None] = lambda: None) -> Any:
    """`creator.create_session()`, asked again after an AbortedError or UnavailableError, but not for ever: the last is
    raised. `begun` hears of each time."""
    for pause in [0.01 * 2 ** number for number in range(Recovery.attempts - 1)]:
        begun()
        try:
            return creator.create_session()
        except LOSSES as loss:
            logger.warning("workbench: a session could not be made: %s; it is tried again", loss)
            threading.Event().wait(pause)
    begun()
    return creator.create_session()


@contextlib.contextmanager
def told() -> Iterator[None]:
    """What brings training back, or begins it: what ends it in vain is the state that views show from then on."""
    try:
        yield
    except BaseException as error:
        status = trace.journal.status
        trace.journal.fail(status.session, status.step, error, final=True)
        raise


class WrappedSession:
    """A session or a session around one, that knows when to stop: always once it is closed."""

    def __init__(self, sess: Any) -> None:
        self._sess = sess

    @property
    def graph(self) -> Any:
        """The graph that the session runs."""
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        """The target of the session."""
        return getattr(self._sess, "sess_str", "")

    def should_stop(self) -> bool:
        """Is it closed, or does it or the session in it want to stop?"""
        if self._check_stop() or self._sess is None:
            return True
        return isinstance(self._sess, WrappedSession) and self._sess.should_stop()

    def _check_stop(self) -> bool:
        """What those who derive from this say."""
        return False

    def close(self) -> None:
        """Close the session; a loss while it is closed is no error."""
        if self._sess is not None:
            with contextlib.suppress(*LOSSES):
                self._sess.close()
            self._sess = None

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step."""
        return self._sess.run(fetches, feed_dict, options, run_metadata)


class HookedSession(WrappedSession):
    """Calls hooks around each step, until one wants to stop."""

    def __init__(self, sess: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(sess)
        self._hooks, self._should_stop = list(hooks), False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step. RuntimeError after a hook wanted to stop."""
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        values, stop = run_with(self._hooks, self._sess, SessionRunArgs(fetches, feed_dict), options, run_metadata)
        self._should_stop |= stop
        return values


class CoordinatedSession(WrappedSession):
    """Stops with a coordinator, whose threads it joins when it is closed; what they raised, and steps, is raised here."""

    def __init__(self, sess: Any, coord: Any, stop_grace_period_secs: float = 120) -> None:
        super().__init__(sess)
        self._coord, self._grace = coord, stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return bool(self._coord.should_stop())

    def close(self) -> None:
        """Stop and join the threads, then close the session. Raises what a thread raised."""
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        finally:
            with contextlib.suppress(Exception):      # what is worth telling, join has raised
                super().close()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step; where a thread failed, what it raised is raised instead of what followed from it."""
        try:
            return super().run(fetches, feed_dict, options, run_metadata)
        except LOSSES:
            raise
        except Exception:
            self._coord.raise_requested_exception()
            raise


class RecoverableSession(WrappedSession):
    """The session that `sess_creator.create_session()` gives, another one after each AbortedError or UnavailableError."""

    def __init__(self, sess_creator: Any) -> None:
        self._creator = sess_creator
        super().__init__(self._created())

    def _created(self) -> Any:
        return created(self._creator)

    def _check_stop(self) -> bool:
        try:
            return self._sess is None or bool(self._sess._check_stop())
        except LOSSES as loss:
            logger.info("a loss where a session asks whether to stop: %s; another one is made", loss)
            self.close()
            self._sess = self._created()
            return False
        except Exception:      # to ask raises nothing
            return True

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step, again with a new session where this one is lost."""
        while True:
            try:
                if self._sess is None:
                    self._sess = self._created()
                return self._sess.run(fetches, feed_dict, options, run_metadata)
            except LOSSES as loss:
                logger.info("a step's session was lost: %s; another one is made", loss)
                self.close()
