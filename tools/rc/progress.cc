#include "tools/rc/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ramcore::rc {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(5);
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress(std::string what, bool is_quiet)
    : what_(std::move(what)),
      is_quiet_(is_quiet),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      next_(begin_ + (is_terminal_ ? Clock::duration(kRedrawEvery) : Clock::duration(kLineEvery))) {}

void Progress::update(uint64_t objects, uint64_t bytes, double part) {
  if (is_quiet_) return;
  part_ = part;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (is_terminal_ ? Clock::duration(kRedrawEvery) : Clock::duration(kLineEvery));
  show(objects, bytes, false);
}

void Progress::finish(uint64_t objects, uint64_t bytes, bool is_complete) {
  if (is_complete && part_ != kUnknown) part_ = 1;
  if (!is_quiet_) show(objects, bytes, true);
}

void Progress::show(uint64_t objects, uint64_t bytes, bool is_last) {
  const double seconds = std::max(1e-6, std::chrono::duration<double>(Clock::now() - begin_).count());
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::string bar;
  if (part_ != kUnknown) {
    const double part = std::clamp(part_, 0.0, 1.0);
    const int filled = static_cast<int>(part * kBarWidth);
    if (is_terminal_) bar = "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] ";
    bar += std::to_string(static_cast<int>(part * 100)) + " % ";
  }
  std::fprintf(stderr, "%s%s %s%llu objects, %.1f MB, %.0f objects/s, %.1f s%s", is_terminal_ ? "\r" : "",
               what_.c_str(), bar.c_str(), static_cast<unsigned long long>(objects), megabytes,
               static_cast<double>(objects) / seconds, seconds, is_terminal_ && !is_last ? "  " : "\n");
  std::fflush(stderr);
}

}  // namespace ramcore::rc
