#include "rpc/coordinators.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/session/open_failure.h"

namespace ramcore::rpc {
namespace {

using Kind = transport::OpenFailure::Kind;

std::vector<PeerAddress> oneByOne(const PeerAddress& address) {
  std::vector<PeerAddress> addresses;
  for (const transport::Locator& locator : address.locators) {
    addresses.push_back({.id = address.id, .locators = {locator}, .is_coordinator = address.is_coordinator});
  }
  return addresses;
}

std::string textOf(const PeerAddress& address) {
  std::string text;
  for (const transport::Locator& locator : address.locators) text += (text.empty() ? "" : ", ") + locator.toString();
  return text;
}

// "no coordinator answers at tcp://a:1: connection refused; check that it runs and listens there"
std::string explainOne(const PeerAddress& address, const transport::OpenFailure& failure, std::string_view self) {
  const std::string where = textOf(address);
  switch (failure.kind) {
    case Kind::Refused:
      return "the coordinator at " + where + " refuses this " + std::string(self) + ": " + failure.text;
    case Kind::WrongRole:
    case Kind::UnknownName:
      return "no coordinator at " + where + ": " + failure.text;
    case Kind::Unreachable:
    case Kind::None:
      break;
  }
  const std::string_view text = failure.text.empty() ? transport::kNoAnswerInTime : failure.text;
  return "no coordinator answers at " + where + ": " + std::string(text);
}

}  // namespace

PeerAddress coordinatorAt(std::vector<transport::Locator> locators) {
  return {.id = 0, .locators = std::move(locators), .is_coordinator = true};
}

Coordinators::Coordinators(std::vector<PeerAddress> addresses) : addresses_(std::move(addresses)) {
  RC_CHECK(!addresses_.empty());
}

Coordinators::Coordinators(const PeerAddress& address) : Coordinators(oneByOne(address)) {}

void Coordinators::note(const PeerAddress& asked, Status status) {
  switch (status) {
    case Status::NotLeader:
    case Status::Unreachable:
    case Status::Refused:
    case Status::WrongCluster:
    case Status::StateBehind:
    case Status::SessionLost:
    case Status::DeadlineExceeded:
      break;
    default:
      return;
  }
  const auto index = static_cast<size_t>(&asked - addresses_.data());
  RC_CHECK(index < addresses_.size());
  size_t expected = index;
  current_.compare_exchange_strong(expected, (index + 1) % addresses_.size(), std::memory_order_relaxed);
}

bool Coordinators::areHopeless(Caller& caller) const {
  return std::ranges::all_of(
      addresses_, [&](const PeerAddress& address) { return caller.connection(address).openFailure().isLasting(); });
}

bool Coordinators::isAnyOpen(Caller& caller) const {
  return std::ranges::any_of(addresses_,
                             [&](const PeerAddress& address) { return caller.connection(address).isOpen(); });
}

bool Coordinators::haveRefused(Caller& caller) const {
  return std::ranges::all_of(addresses_, [&](const PeerAddress& address) {
    const Kind kind = caller.connection(address).openFailure().kind;
    return kind == Kind::Refused || kind == Kind::WrongRole;
  });
}

std::string Coordinators::toString() const {
  std::string text;
  for (const PeerAddress& address : addresses_) text += (text.empty() ? "" : ", ") + textOf(address);
  return text;
}

std::string Coordinators::explain(Caller& caller, std::string_view self) const {
  // Nothing is known about a coordinator with an open session, so it is left out, unless the sessions of all are open.
  const auto tells = [&](const PeerAddress& address) { return !caller.connection(address).isOpen(); };
  const bool any_tells = std::ranges::any_of(addresses_, tells);
  std::string text;
  for (const PeerAddress& address : addresses_) {
    if (any_tells && !tells(address)) continue;
    if (!text.empty()) text += "; ";
    text += explainOne(address, caller.connection(address).openFailure(), self);
  }
  return text;
}

}  // namespace ramcore::rpc
