#!/usr/bin/env python3
"""Walks every interleaving of a server that falls silent, the coordinator, the new owner and one client.

Usage: tests/models/silent_server_model.py

The client increments a counter at A. A may stop at any moment and go on at any other, or never. The coordinator declares
A dead: verdict, fence at the backups, end of A's lease, and B owns what the backups have. The client asks when it has
waited for long, gives the attempt up and goes to B. Requests and answers take as long as they like.

Checked in every state that can be reached:
  - no call is carried out twice
  - what was acknowledged is there, at whoever owns the tablet
  - a call that the client reports as not having happened has not, and does not later
  - nobody reads an older value at A than was acknowledged
  - the client is not kept: whatever has happened, an answer can be reached without A, and by a client whose calls are
    over long before it would ask, with its next call

Each rule is needed: left out, some state breaks a check. Exit code 0: all rules together hold, and each left out fails.
"""
import sys
from collections import deque, namedtuple

RULES = {
    "same identity": "the attempt at the new owner carries the identity of the one before",
    "results travel": "the new owner knows the results of calls that it has recovered",
    "fence": "backups refuse the dead server's writes before its log is read",
    "lease": "a server that goes on after its lease answers nothing, and the new owner waits for its end",
    "late answers": "answers of attempts that were given up are ignored",
    "open fate": "a call of which an attempt was given up may have happened",
    "asks": "a call that waits for long has the coordinator asked, again and again",
    "gives up": "an attempt at a server that is not the owner any more is given up",
    "doubt": "after a deadline the next call asks, too",
}
NONE, DEAD, FENCED, LEASE_OVER, TAKEN = range(5)
CALLS_MAX = 2

# log: what backups have of A. a: A's memory. b: B's store, with repetitions. Identities are (call, number).
# requests: (server, attempt, identity). answers: (attempt, identity, is it ok).
# outcomes: of the calls that are over. attempt: of the present one; None: it waits for an owner.
State = namedtuple("State", "a_runs a_stops verdict log a b requests answers outcomes call identity attempt target "
                            "attempts cache is_open doubts wrong")
BEGIN = State(True, 0, NONE, (), (), None, frozenset(), frozenset(), (), 0, None, None, None, 0, "A", False, False, None)


def begin_call(state):
    if state.identity is not None or state.call == CALLS_MAX:
        return None
    state = state._replace(call=state.call + 1, identity=(state.call + 1, 1), is_open=False)
    return send(state) if state.cache is not None else state


def send(state):
    attempt = state.attempts + 1
    return state._replace(attempts=attempt, attempt=attempt, target=state.cache,
                          requests=state.requests | {(state.cache, attempt, state.identity)})


def end_call(state, outcome):
    return state._replace(outcomes=state.outcomes + ((state.identity[0], outcome),), identity=None, attempt=None)


def told_owner(state):
    return "A" if state.verdict == NONE else "B" if state.verdict == TAKEN else None


def client_steps(state, rules, is_patient):
    begun = begin_call(state)
    if begun is not None:
        yield "call", begun
    if state.identity is None:
        return
    # The call was refused, found no server, or waits. A client without an attempt under way always asks.
    may_ask = state.attempt is None or (is_patient and "asks" in rules) or state.doubts
    if may_ask and (state.cache != told_owner(state) or state.doubts):
        yield "ask", state._replace(cache=told_owner(state), doubts=False)
    if state.attempt is not None and state.cache != state.target and "gives up" in rules:
        identity = state.identity if "same identity" in rules else (state.identity[0], state.identity[1] + 1)
        yield "give up", state._replace(attempt=None, identity=identity, is_open="open fate" in rules)
    if state.attempt is None and state.cache is not None and state.attempts < 2 * CALLS_MAX:
        yield "go there", send(state)
    is_open = state.is_open or state.attempt is not None
    late = end_call(state, "unknown" if is_open else "not")
    yield "deadline", late._replace(doubts=state.attempt is not None and "doubt" in rules)


def answer_steps(state, rules):
    for answer in state.answers:
        attempt, identity, is_ok = answer
        rest = state._replace(answers=state.answers - {answer})
        is_current = attempt == state.attempt
        if not is_current and ("late answers" in rules or state.identity is None or identity[0] != state.identity[0]):
            yield "late answer", rest
        elif is_ok:
            yield "ok", end_call(rest, "ok")
        elif is_current:
            yield "refused", rest._replace(attempt=None, cache=None)
        else:
            yield "refused late", end_call(rest, "not")


def a_steps(state, rules):
    if state.a_runs:
        if state.a_stops < 2:
            yield "A stops", state._replace(a_runs=False, a_stops=state.a_stops + 1)
    else:
        yield "A goes on", state._replace(a_runs=True)
        return
    is_over = "lease" in rules and state.verdict >= LEASE_OVER
    for request in state.requests:
        server, attempt, identity = request
        if server != "A":
            continue
        # A server does not refuse a call that it has begun: the answer waits for the backups.
        if is_over and identity not in state.a:
            yield "A refuses", state._replace(requests=state.requests - {request},
                                              answers=state.answers | {(attempt, identity, False)})
        elif identity not in state.a:
            yield "A appends", state._replace(a=state.a + (identity,))
        elif identity in state.log:
            yield "A answers", state._replace(requests=state.requests - {request},
                                              answers=state.answers | {(attempt, identity, True)})
    for identity in state.a:
        is_fenced = "fence" in rules and state.verdict >= FENCED
        if identity not in state.log and not is_fenced:
            yield "A replicates", state._replace(log=state.log + (identity,))
    # Another client reads, which has not asked where the tablet is.
    acknowledged = sum(outcome == "ok" for _, outcome in state.outcomes)
    if not is_over and acknowledged > len(state.a):
        yield "A shows what is old", state._replace(wrong="an older value than was acknowledged is read")


def coordinator_steps(state):
    if state.verdict == NONE and state.a_stops > 0:
        yield "verdict", state._replace(verdict=DEAD)
    elif state.verdict in (DEAD, FENCED):
        yield "fence or lease", state._replace(verdict=state.verdict + 1)
    elif state.verdict == LEASE_OVER:
        yield "B takes over", state._replace(verdict=TAKEN, b=state.log)


def b_steps(state, rules):
    if state.b is None:
        return
    for request in state.requests:
        server, attempt, identity = request
        if server != "B":
            continue
        is_known = identity in state.b and "results travel" in rules
        yield "B answers", state._replace(b=state.b if is_known else state.b + (identity,),
                                          requests=state.requests - {request},
                                          answers=state.answers | {(attempt, identity, True)})


def steps(state, rules, is_patient, with_a=True):
    yield from client_steps(state, rules, is_patient)
    yield from answer_steps(state, rules)
    yield from coordinator_steps(state)
    yield from b_steps(state, rules)
    if with_a:
        yield from a_steps(state, rules)


def violation(state):
    if state.wrong:
        return state.wrong
    there = state.log if state.b is None else state.b
    calls = [call for call, _ in there]
    if len(set(calls)) != len(calls):
        return "a call was carried out twice"
    for call, outcome in state.outcomes:
        if outcome == "ok" and call not in calls:
            return "what was acknowledged is gone"
        if outcome == "not" and call in calls:
            return "what has not happened, by its status, has"
    return None


def walk(rules, is_patient=True):
    """(what is wrong, how it came there); (None, the number of states)."""
    came_from = {BEGIN: None}
    queue = deque([BEGIN])
    while queue:
        state = queue.popleft()
        wrong = violation(state)
        if wrong:
            path = []
            while came_from[state] is not None:
                state, step = came_from[state]
                path.append(step)
            return wrong, path[::-1]
        for step, after in steps(state, rules, is_patient):
            if after not in came_from:
                came_from[after] = (state, step)
                queue.append(after)
    return None, len(came_from)


def is_answered(rules, is_patient):
    """A is silent for ever behind the first call, and B has its tablets: can the client be answered? One that is patient
    without its deadline; else only a later call counts, since the first one is over before anybody asks."""
    state = begin_call(BEGIN)._replace(a_runs=False, a_stops=2)
    queue, seen = deque([state]), {state}
    while queue:
        state = queue.popleft()
        if any(outcome == "ok" for _, outcome in state.outcomes):
            return True
        for step, after in steps(state, rules, is_patient, with_a=False):
            if (step == "deadline" and is_patient) or after in seen:
                continue
            seen.add(after)
            queue.append(after)
    return False


def judge(rules):
    wrong, how = walk(rules)
    if wrong:
        return wrong, how
    for is_patient in (True, False):
        if not is_answered(rules, is_patient):
            return f"a client that is {'patient' if is_patient else 'not patient'} is never answered", []
    return None, how


def main():
    wrong, how = judge(frozenset(RULES))
    if wrong:
        print(f"with all rules: {wrong}: {', '.join(how)}")
        return 1
    print(f"all rules: {how} states, nothing is wrong")
    failed = False
    for rule, meaning in RULES.items():
        wrong, how = judge(frozenset(RULES) - {rule})
        print(f"without '{rule}' ({meaning}): {wrong or 'NOTHING IS WRONG'}" + (f" after {', '.join(how)}" if wrong and how else ""))
        failed = failed or not wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
