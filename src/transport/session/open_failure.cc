#include "transport/session/open_failure.h"

#include <cerrno>
#include <cstring>

namespace ramcore::transport {

std::string connectFailureText(int error) {
  if (error == ECONNREFUSED) return "connection refused; check that it runs and listens there";
  if (error == EMFILE || error == ENFILE) return noSocketText(error);
  std::string text = std::strerror(error);
  if (text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text + "; check the address, and the network between here and there";
}

std::string noSocketText(int error) {
  if (error == EMFILE) return std::string(kNoDescriptor);
  if (error == ENFILE) return "this machine may open no more files; raise /proc/sys/fs/file-max";
  return "the system makes no socket: " + std::string(std::strerror(error)) + "; check the memory of this machine";
}

std::string notWatchedText(int error) { return error == ENOSPC ? std::string(kNotWatched) : noSocketText(error); }

std::string unknownHostText(std::string_view host) {
  return "host '" + std::string(host) + "' is unknown; correct it, or enter it where this machine looks names up";
}

std::string lookupFailureText(std::string_view host, std::string_view why) {
  return "host '" + std::string(host) + "' cannot be looked up (" + std::string(why) +
         "); check the name service of this machine, or write an address";
}

OpenFailure openFailureOf(Status status, const std::string& text) {
  const bool is_refused = status == Status::Refused || status == Status::WrongCluster;
  return {.kind = is_refused ? OpenFailure::Kind::Refused : OpenFailure::Kind::Unreachable, .text = text};
}

}  // namespace ramcore::transport
