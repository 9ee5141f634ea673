"""The check on replicas: copies of one model on several ranks are the same after every update."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from everybit.core.boundary import Boundary
from everybit.core.config import OnFinding
from everybit.core.link import Link
from everybit.core.observation import TensorTable, state_entry
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.guard.check import Check
from everybit.guard.meeting import job_ranks, tell_ranks
from everybit.guard.policy import LOGGER
from everybit.guard.replicas.audit import RingAudit, wait_for
from everybit.guard.replicas.board import Board
from everybit.guard.replicas.case import Case
from everybit.guard.replicas.columns import Columns
from everybit.guard.replicas.copies import Copies, owner_of
from everybit.guard.replicas.exchange import Exchange
from everybit.guard.replicas.questions import Questions
from everybit.guard.replicas.reduction import Reduction, Sums
from everybit.guard.replicas.row import INIT, classes_agree, row_of
from everybit.guard.replicas.snapshot import Snapshot
from everybit.guard.replicas.uncompared import not_copies
from everybit.guard.replicas.wholes import Taken, Wholes, add_up, words_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.guard.gradients import Gradients
    from everybit.guard.moment import Moment
    from everybit.guard.record import RecordCheck
    from everybit.guard.replicas.layout import Layout
    from everybit.guard.replicas.row import Row
    from everybit.guard.state import CarriedState

#: Steps whose sums are kept while other ranks' digests are on their way.
_KEPT: Final = 4
#: Rounds that are looked into though it is not settled yet what is a copy of what.
_FIRST: Final = 32
#: Seconds that the end of the run waits for answers.
_LAST_WAIT_S: Final = 2.0
#: Seconds that an audit waits for the ranks to have met.
_MEETING_S: Final = 1.0
_POLL_S: Final = 1e-3
_NO_TABLE: Final = TensorTable(link=Link.UPDATE, names=(), digests=())


class ReplicaCheck(Check):
    """Show the digests of each update to the other ranks, and look into what differs.

    Under `record` and `warn` no rank waits for another: what came out is judged an update later.
    Under all other policies it is judged before it is used.

    Args:
        state: The carried state.
        record: Gathers the digests of parameters, buffers and optimizer state.
        gradients: Marks of the gradients; None where there are none.
        config: Settings of the Guard.

    Attributes:
        audit: Is given each call that replay has repeated exactly.
        questions: Asks the next rank about a part that went wrong here.
    """

    def __init__(
        self,
        state: CarriedState,
        record: RecordCheck,
        gradients: Gradients | None,
        config: Config,
    ) -> None:
        self._state = state
        self._record = record
        self._columns = Columns(state, gradients)
        self._config = config
        self._patient = config.on_finding in (OnFinding.RECORD, OnFinding.WARN)
        self._heal = config.on_finding in (OnFinding.HEAL, OnFinding.REWIND)
        self._exchange: Exchange | None = None
        self._board: Board | None = None
        self._open: list[tuple[int, Snapshot | Sums | Taken]] = []
        self._wholes = Wholes()
        self._reduction = Reduction(config.replay_every)
        self.audit = RingAudit(config.replay_every)
        self.questions = Questions(self._why_no_question)
        self._cases: list[Case] = []
        self._copies: dict[tuple[int, ...], Copies] = {}
        self._agreed: dict[int, Copies] = {}
        self._posted: set[int] = set()
        self._num_steps = 0
        self._known: set[str] = set()
        self._erred_at: int | None = None
        self._alone = True
        self._num_compared = 0
        self._skipped: dict[str, str] = {}

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Take what this boundary offers; findings come when the step has ended."""
        if boundary is Boundary.FORWARD_START and moment.differentiable:
            self._wholes.begin(moment.step, self._state.tracked(), adds=self._is_wanted())
        if not self._is_wanted():
            return ()
        self._alone &= moment.alone
        if boundary is Boundary.STEP_END:
            self._num_steps += 1
        elif boundary is Boundary.BACKWARD_END:
            self._columns.take_gradients()
            self._reduction.end()
            return self._audited(moment)
        elif boundary is Boundary.FORWARD_START and moment.differentiable:
            self._begin()
            self._columns.note_call()
            if moment.call == 0:
                self.audit.look_at(self._num_steps)
            self._look_at_reduction(moment.step, scattered=False)
        elif boundary is Boundary.BACKWARD_START:
            self._look_at_reduction(moment.step, scattered=True)
        return ()

    def _look_at_reduction(self, step: int, *, scattered: bool) -> None:
        number = step // self._config.every
        if self._reduction.is_due(number):
            self._columns.sum_up(self._reduction, step, number, scattered=scattered)

    def note(self, findings: Sequence[Finding]) -> None:
        """Take note of damage on this rank: where it makes copies part it is told already."""
        for finding in findings:
            where = finding.where
            if finding.rule == "CMP701":
                self._erred_at = where.step
            if where.parameter is None:
                continue
            name = f"{where.module}:{where.parameter}" if where.module else where.parameter
            if where.optimizer and where.tensor:
                name = state_entry(where.optimizer, name, where.tensor)
            if not finding.evidence.get("healed"):
                self._known.add(owner_of(name))

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Show this update's digests; judge what has come out."""
        if moment.optimizer is None or not self._is_wanted():
            return ()
        exchange = self._begin()
        number = moment.step // self._config.every
        if number % self._config.replicas_every == 0:
            self._show(moment)
        if self._reduction.is_due(number):
            sums = self._reduction.take(moment.step)
            self._open.append((exchange.begin(sums.row), sums))
        self._columns.forget_gradients()
        self._alone = True
        return self._judge(0.0 if self._patient else float(self._config.patience_s))

    def at_end(self, step: int) -> Sequence[Finding]:
        """Judge what is still on its way; waits a little for it."""
        found = self._judge(_LAST_WAIT_S)
        return found + self.questions.give_up("it did not answer before the run ended, or a save")

    def left(self) -> Sequence[Finding]:
        """Return the findings that wait for another rank's answer."""
        return self.questions.give_up("the run ended before it answered")

    def observed(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the digests of whole tensors that have come out."""
        return self._wholes.observed()

    def close(self) -> None:
        """Let go of the ranks' group."""
        if self._exchange is not None:
            for case in self._cases:
                self._give_up(case)
            if self._exchange.ended:
                self._skipped["replicas"] = self._exchange.ended
            elif self._open:
                what = f"replicas from step {self._open[0][1].step} on"
                self._skipped[what] = "not all ranks have shown their digests"
            self._exchange.part()
        self._reduction.stop()
        self._board = None
        self._columns.close()

    def coverage(self) -> Coverage:
        """Return how often copies were compared, and which were not."""
        if self._exchange is None:
            return Coverage()
        promised = self._columns.declared
        skipped = [Skipped(what=w, why=y, promised=promised) for w, y in self._skipped.items()]
        skipped += not_copies(self._agreed.values(), self._columns, self._num_compared)
        checked = [Checked(what="comparisons of a tensor across ranks", count=self._num_compared)]
        if self._reduction.num_checked:
            count = self._reduction.num_checked
            checked.append(Checked(what="reductions of a gradient", count=count))
        told = Coverage(checked=tuple(checked), skipped=tuple(skipped))
        return told + self.audit.coverage() + self._wholes.coverage()

    def _is_wanted(self) -> bool:
        if self._exchange is not None:
            return True
        return self._config.replicas_every > 0 and job_ranks()[1] > 1

    def _begin(self) -> Exchange:
        """Return the exchange; the first time the ranks begin to meet."""
        if self._exchange is None:
            config = self._config
            cadence = f"{config.every}, {config.replicas_every}, {config.replay_every}"
            settings = f"every {cadence}, {config.on_finding}"
            self._exchange = Exchange(settings, float(config.patience_s))
        return self._exchange

    def _audited(self, moment: Moment) -> Sequence[Finding]:
        """Audit a step that was replayed, with the ranks that hold copies of the model."""
        ranks = self._columns.ring
        exchange = self._exchange
        if not self.audit.is_pending or len(ranks) < 2 or exchange is None:
            return ()
        if not wait_for(lambda: exchange.store is not None or bool(exchange.ended), _MEETING_S):
            return ()  # The ranks have not met yet.
        try:
            board = self._notes(exchange)
            if board is None:
                return ()
            return self.audit.run(
                board,
                ranks,
                exchange.rank,
                step=moment.step,
                patience_s=float(self._config.patience_s),
            )
        except RuntimeError as error:
            exchange.fail(error)
            return ()

    def _notes(self, exchange: Exchange) -> Board | None:
        if self._board is None and exchange.store is not None:
            self._board = Board(exchange.store, exchange.rank)
        return self._board

    def _show(self, moment: Moment) -> None:
        """Show the digests of the update that has just ended."""
        assert self._exchange is not None
        tables = [t for t in self._record.gathered.tables if t.link is Link.UPDATE]
        table = tables[0] if tables else _NO_TABLE
        layout, words = self._columns.of(table)
        number = moment.step // self._config.every // self._config.replicas_every
        taken = self._wholes.take(moment.step, number, table.names, self._state.tracked)
        copies = self._agreed.get(layout.word)
        self.questions.put_up(self._notes(self._exchange))
        row = row_of(
            moment.step,
            layout.word,
            None if copies is None else [(c.key, c.digest(words)) for c in copies.classes],
            void=not self._alone,
            asked=self.questions.last,
            wholes=words_for(taken),
        )
        known = self._known | ({""} if self._erred_at == moment.step else set())
        snapshot = Snapshot(moment.step, layout, words, frozenset(known), not self._patient)
        snapshot.keep(self._state)
        self._open.append((self._exchange.begin(row), snapshot))
        self._open += add_up(self._exchange, taken)
        kept = [shown for _, shown in self._open if isinstance(shown, Snapshot)]
        if len(kept) > _KEPT:
            kept[-_KEPT - 1].let_go()

    def _judge(self, at_most_s: float) -> list[Finding]:
        """Look at what has come out; wait for it so long at most."""
        if self._exchange is None or self._exchange.ended:
            why = "the ranks never met" if self._exchange is None else self._exchange.ended
            return self.questions.give_up(why)
        deadline = time.monotonic() + at_most_s
        findings: list[Finding] = []
        try:
            for matrix in self._exchange.take(at_most_s):
                number, shown = self._open.pop(0)
                if isinstance(shown, Sums):
                    findings += self._reduction.judge(shown, matrix, self._exchange.rank)
                elif isinstance(shown, Taken):
                    self._wholes.keep(shown, matrix)
                else:
                    self._look(number, shown, matrix)
            for _, shown in self._open:
                if isinstance(shown, Snapshot):
                    shown.freeze()
            findings += self._advance()
            while (self._cases or self.questions.is_open) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                findings += self._advance()
        except RuntimeError as error:  # The process that holds the ranks' store is gone.
            self._exchange.fail(error)
        if not self._exchange.num_pending:
            self._open.clear()  # All are judged, or will never be.
        return findings

    def _look(self, number: int, snapshot: Snapshot, matrix: Row) -> None:
        """Judge one round: nothing to do where all classes agree."""
        steps, layouts, anew, void, asked = matrix[:, :INIT].T.tolist()
        self._answer(asked)
        if len(set(steps)) > 1:
            first, last = min(steps), max(steps)
            self._skipped["replicas"] = f"ranks counted different steps ({first} and {last})"
            return
        if any(void):
            self._skipped["replicas, at some steps,"] = "another thread was inside an update"
            return
        copies = self._agreed.get(snapshot.layout.word)
        unsettled = any(anew)
        if not unsettled and classes_agree(matrix):
            if copies is not None:
                copies.note_equal(snapshot.words)
                self._num_compared += copies.num_compared
            return
        # While nothing is settled, all that comes is looked into at first, then ever less of it.
        if not unsettled or number <= _FIRST or number & (number - 1) == 0:
            self._open_case(number, snapshot, layouts)

    def _answer(self, asked: Sequence[int]) -> None:
        """Answer what the rank before has asked."""
        assert self._exchange is not None
        before = (self._exchange.rank - 1) % self._exchange.world_size
        board = self._notes(self._exchange)
        if board is not None and asked[before]:
            self.questions.answer(board, before, asked[before])

    def _why_no_question(self) -> str:
        if not self._is_wanted():
            return "ranks are not compared (replicas_every = 0)"
        if self._config.on_finding in (OnFinding.STOP, OnFinding.PAUSE):
            return "the policy acts before the update, and another rank answers behind it"
        return self._begin().ended

    def _open_case(self, number: int, snapshot: Snapshot, layouts: list[int]) -> None:
        assert self._exchange is not None
        board = self._notes(self._exchange)
        if board is None:
            return
        word = snapshot.layout.word
        if word not in self._posted:
            self._posted.add(word)
            board.put(f"layout/{word:x}", snapshot.layout.to_bytes())
        copies = self._agreed.get(word)
        known = copies is not None and [each.word for each in copies.layouts] == layouts
        case = Case(
            number,
            snapshot,
            layouts,
            board,
            rank=self._exchange.rank,
            ranks=copies.ranks if copies is not None and known else range(len(layouts)),
            heal=self._heal,
        )
        self._cases.append(case)

    def _advance(self) -> list[Finding]:
        """Go on with the open cases as far as other ranks' notes are there."""
        assert self._exchange is not None
        findings = self.questions.advance(
            self._notes(self._exchange),
            (self._exchange.rank + 1) % self._exchange.world_size,
            float(self._config.patience_s),
        )
        for case in list(self._cases):
            case.advance(self._copies_of, self._state)
            if case.is_over:
                self._cases.remove(case)
                self._num_compared += case.num_compared
                findings += case.findings
            elif case.waited_s > self._config.patience_s:
                self._cases.remove(case)
                findings += case.findings
                self._give_up(case)
        return findings

    def _copies_of(self, layouts: Sequence[Layout]) -> Copies:
        words = tuple(layout.word for layout in layouts)
        copies = self._copies.get(words)
        if copies is None:
            assert self._exchange is not None
            copies = self._copies[words] = Copies(layouts, self._exchange.rank)
        self._agreed[words[copies.rank]] = copies
        return copies

    def _give_up(self, case: Case) -> None:
        late = case.waits_for() if self._board is not None else []
        why = f"no answer of {tell_ranks(late)} on what differs"
        LOGGER.debug("everybit: replicas at step %d: %s", case.step, why)
        self._skipped[f"replicas at step {case.step}"] = why
