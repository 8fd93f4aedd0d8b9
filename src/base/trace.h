#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ramcore {

/// Diagnostics for people: one line per event on stderr. Not for the request path: formatting happens at the caller and
/// costs microseconds. The code that first knows the cause prints the line, once.
enum class TraceLevel : uint8_t { Debug, Info, Warning, Error, Off };

/// Where trace lines go. The processes' implementation writes to stderr through spdlog; the simulator's carries
/// simulated time and node ids and feeds the trace hash.
class Trace {
 public:
  virtual ~Trace() = default;
  /// Writes one line. `text` has no newline. Any thread.
  virtual void write(TraceLevel level, std::string_view text) = 0;
  bool enabled(TraceLevel level) const { return level >= level_; }
  void setLevel(TraceLevel level) { level_ = level; }

  void debug(std::string_view text) {
    if (enabled(TraceLevel::Debug)) write(TraceLevel::Debug, text);
  }
  void info(std::string_view text) {
    if (enabled(TraceLevel::Info)) write(TraceLevel::Info, text);
  }
  void warning(std::string_view text) {
    if (enabled(TraceLevel::Warning)) write(TraceLevel::Warning, text);
  }
  void error(std::string_view text) {
    if (enabled(TraceLevel::Error)) write(TraceLevel::Error, text);
  }

 private:
  TraceLevel level_ = TraceLevel::Info;
};

/// The processes' trace: "2026-11-20T12:00:00.123456Z info server: text" on stderr. `program` names the process.
/// Lives for the whole process; the first call decides the name.
Trace& stderrTrace(std::string_view program);

/// A trace that drops everything, for tests and for library users who asked for silence.
Trace& silentTrace();

/// Parses "debug", "info", "warning", "error" or "off"; false if it is none of them.
bool parseTraceLevel(std::string_view text, TraceLevel& level);

}  // namespace ramcore
