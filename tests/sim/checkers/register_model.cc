#include "sim/checkers/register_model.h"

#include <algorithm>

namespace ramcore::sim {
namespace {

using MaybeState = std::optional<RegisterState>;

constexpr uint64_t kVersionUnbounded = ~uint64_t{0};

/// The state if its object's version lies in this range (known that much better), or nothing.
MaybeState withinVersions(RegisterState state, uint64_t least, uint64_t most) {
  state.version_min = std::max(state.version_min, least);
  state.version_max = std::min(state.version_max, most);
  return state.version_min <= state.version_max ? MaybeState(state) : std::nullopt;
}

/// The state if its object has this version (made exact), or nothing. Version 0 = nobody said which.
MaybeState atVersion(const RegisterState& state, uint64_t version) {
  if (!state.present) return std::nullopt;
  if (version == 0) return state;
  return withinVersions(state, version, version);
}

/// The state in which the condition holds, or nothing if it cannot.
MaybeState satisfying(const RegisterState& state, const Condition& condition) {
  switch (condition.kind) {
    case ConditionKind::None:
      return state;
    case ConditionKind::MustExist:
      return state.present ? MaybeState(state) : std::nullopt;
    case ConditionKind::MustNotExist:
      return state.present ? std::nullopt : MaybeState(state);
    case ConditionKind::VersionEquals:
      if (!state.present) return condition.version == 0 ? MaybeState(state) : std::nullopt;
      return condition.version == 0 ? std::nullopt : atVersion(state, condition.version);
    case ConditionKind::VersionNotGreater:
      return state.present ? withinVersions(state, 0, condition.version) : MaybeState(state);
  }
  return std::nullopt;
}

MaybeState withNewVersion(RegisterState state, ObservedValue value, uint64_t version) {
  if (version != 0 && version <= state.version_min) return std::nullopt;
  state.version_min = version != 0 ? version : state.version_min + 1;
  state.version_max = version != 0 ? version : kVersionUnbounded;
  state.present = true;
  state.value = value;
  return state;
}

RegisterState withoutObject(const RegisterState& state) {
  RegisterState after;
  after.version_min = state.version_min;
  return after;
}

/// What an increment leaves, or nothing if the object is not an integer.
std::optional<ObservedValue> incremented(const RegisterState& state, uint64_t delta) {
  if (!state.present) return ObservedValue{delta, true};
  if (!state.value.is_integer) return std::nullopt;
  return ObservedValue{state.value.bits + delta, true};
}

MaybeState applyOk(const RegisterState& state, const Operation& operation, uint64_t created_version) {
  switch (operation.kind) {
    case OperationKind::Read:
    case OperationKind::ScanRead:
      if (!state.present || state.value != operation.result) return std::nullopt;
      return atVersion(state, operation.version);
    case OperationKind::Write:
      return withNewVersion(state, operation.argument, created_version);
    case OperationKind::Remove: {
      const MaybeState removed = atVersion(state, operation.version);
      return removed ? MaybeState(withoutObject(*removed)) : std::nullopt;
    }
    case OperationKind::Increment: {
      const std::optional<ObservedValue> sum = incremented(state, operation.delta);
      if (!sum || *sum != operation.result) return std::nullopt;
      return withNewVersion(state, *sum, created_version);
    }
  }
  return std::nullopt;
}

MaybeState applyUnknown(const RegisterState& state, const Operation& operation, uint64_t created_version) {
  switch (operation.kind) {
    case OperationKind::Read:
    case OperationKind::ScanRead:
      return std::nullopt;
    case OperationKind::Write:
      return withNewVersion(state, operation.argument, created_version);
    case OperationKind::Remove:
      return state.present ? MaybeState(withoutObject(state)) : std::nullopt;
    case OperationKind::Increment: {
      const std::optional<ObservedValue> sum = incremented(state, operation.delta);
      return sum ? withNewVersion(state, *sum, created_version) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Reads and removes always need an object, other calls only if they insist on one.
MaybeState applyNotFound(const RegisterState& state, const Operation& operation) {
  if (state.present) return std::nullopt;
  if (operation.isRead() || operation.kind == OperationKind::Remove) return state;
  const ConditionKind condition = operation.condition.kind;
  const bool insists = condition != ConditionKind::None && condition != ConditionKind::MustNotExist;
  return insists ? MaybeState(state) : std::nullopt;
}

MaybeState applyWrongVersion(const RegisterState& state, const Operation& operation) {
  const Condition& condition = operation.condition;
  if (condition.kind != ConditionKind::VersionEquals && condition.kind != ConditionKind::VersionNotGreater) {
    return std::nullopt;
  }
  if (!state.present) return operation.version == 0 && !satisfying(state, condition) ? MaybeState(state) : std::nullopt;
  if (operation.version != 0) {
    const MaybeState refused = atVersion(state, operation.version);
    return refused && !satisfying(*refused, condition) ? refused : std::nullopt;
  }
  if (condition.kind == ConditionKind::VersionNotGreater) {
    return withinVersions(state, condition.version + 1, kVersionUnbounded);
  }
  const bool must_be_equal = state.isVersionKnown() && state.version_min == condition.version;
  return must_be_equal ? std::nullopt : MaybeState(state);
}

}  // namespace

std::optional<RegisterState> apply(const RegisterState& state, const Operation& operation, uint64_t created_version) {
  switch (operation.outcome) {
    case Outcome::Ok: {
      const MaybeState before = satisfying(state, operation.condition);
      return before ? applyOk(*before, operation, created_version) : std::nullopt;
    }
    case Outcome::Unknown: {
      const MaybeState before = satisfying(state, operation.condition);
      return before ? applyUnknown(*before, operation, created_version) : std::nullopt;
    }
    case Outcome::NotFound:
      return applyNotFound(state, operation);
    case Outcome::ObjectExists:
      if (operation.condition.kind != ConditionKind::MustNotExist) return std::nullopt;
      return atVersion(state, operation.version);
    case Outcome::WrongVersion:
      return applyWrongVersion(state, operation);
    case Outcome::TypeMismatch: {
      if (operation.kind != OperationKind::Increment || !state.present || state.value.is_integer) return std::nullopt;
      return satisfying(state, operation.condition);
    }
    case Outcome::NotRun:
      return state;
  }
  return std::nullopt;
}

}  // namespace ramcore::sim
