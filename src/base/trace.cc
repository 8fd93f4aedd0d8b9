#include "base/trace.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace ramcore {
namespace {

class StderrTrace final : public Trace {
 public:
  explicit StderrTrace(std::string_view program)
      : logger_(std::string(program), std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %n: %v", spdlog::pattern_time_type::utc);
    logger_.set_level(spdlog::level::trace);
    logger_.flush_on(spdlog::level::trace);
  }

  void write(TraceLevel level, std::string_view text) override { logger_.log(toSpdlog(level), "{}", text); }

 private:
  static spdlog::level::level_enum toSpdlog(TraceLevel level) {
    switch (level) {
      case TraceLevel::Debug:
        return spdlog::level::debug;
      case TraceLevel::Info:
        return spdlog::level::info;
      case TraceLevel::Warning:
        return spdlog::level::warn;
      case TraceLevel::Error:
      case TraceLevel::Off:
        return spdlog::level::err;
    }
    return spdlog::level::err;
  }

  spdlog::logger logger_;
};

class SilentTrace final : public Trace {
 public:
  SilentTrace() { setLevel(TraceLevel::Off); }
  void write(TraceLevel, std::string_view) override {}
};

}  // namespace

Trace& stderrTrace(std::string_view program) {
  static StderrTrace trace(program);
  return trace;
}

Trace& silentTrace() {
  static SilentTrace trace;
  return trace;
}

bool parseTraceLevel(std::string_view text, TraceLevel& level) {
  struct Name {
    std::string_view text;
    TraceLevel level;
  };
  static constexpr Name kNames[] = {{"debug", TraceLevel::Debug},
                                    {"info", TraceLevel::Info},
                                    {"warning", TraceLevel::Warning},
                                    {"error", TraceLevel::Error},
                                    {"off", TraceLevel::Off}};
  for (const Name& candidate : kNames) {
    if (candidate.text == text) {
      level = candidate.level;
      return true;
    }
  }
  return false;
}

}  // namespace ramcore
