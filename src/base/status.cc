#include "base/status.h"

namespace ramcore {

std::string_view name(Status status) {
  switch (status) {
    case Status::Ok:
      return "Ok";
    case Status::NotFound:
      return "NotFound";
    case Status::ObjectExists:
      return "ObjectExists";
    case Status::WrongVersion:
      return "WrongVersion";
    case Status::NoSuchTable:
      return "NoSuchTable";
    case Status::TableExists:
      return "TableExists";
    case Status::TypeMismatch:
      return "TypeMismatch";
    case Status::TooLarge:
      return "TooLarge";
    case Status::BadRequest:
      return "BadRequest";
    case Status::OutcomeUnknown:
      return "OutcomeUnknown";
    case Status::LimitReached:
      return "LimitReached";
    case Status::WrongServer:
      return "WrongServer";
    case Status::StaleEpoch:
      return "StaleEpoch";
    case Status::WrongServerId:
      return "WrongServerId";
    case Status::RetryLater:
      return "RetryLater";
    case Status::NoSpace:
      return "NoSpace";
    case Status::LeaseUnknown:
      return "LeaseUnknown";
    case Status::NotLeader:
      return "NotLeader";
    case Status::TooFewReplicas:
      return "TooFewReplicas";
    case Status::CoordinatorFull:
      return "CoordinatorFull";
    case Status::StateBehind:
      return "StateBehind";
    case Status::SessionLost:
      return "SessionLost";
    case Status::DeadlineExceeded:
      return "DeadlineExceeded";
    case Status::Cancelled:
      return "Cancelled";
    case Status::Unreachable:
      return "Unreachable";
    case Status::Refused:
      return "Refused";
    case Status::Shutdown:
      return "Shutdown";
    case Status::Forked:
      return "Forked";
    case Status::StaleSequence:
      return "StaleSequence";
    case Status::LeaseExpired:
      return "LeaseExpired";
    case Status::Fenced:
      return "Fenced";
    case Status::Corrupt:
      return "Corrupt";
    case Status::IoError:
      return "IoError";
    case Status::InUse:
      return "InUse";
    case Status::WrongCluster:
      return "WrongCluster";
    case Status::WrongFormat:
      return "WrongFormat";
    case Status::BadConfig:
      return "BadConfig";
    case Status::Internal:
      return "Internal";
  }
  return "Unknown";
}

}  // namespace ramcore
