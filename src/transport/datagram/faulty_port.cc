#include "transport/datagram/faulty_port.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

namespace ramcore::transport::datagram {
namespace {

Failure badRates(std::string_view text, std::string_view why) {
  return Failure{Status::BadConfig,
                 "bad faults '" + std::string(text) + "': " + std::string(why) +
                     "; write e.g. loss=5,duplicate=1,reorder=2,corrupt=0.1,delay_us=200,seed=7 (per "
                     "cent, microseconds)"};
}

}  // namespace

Outcome<FaultRates> FaultRates::parse(std::string_view text) {
  FaultRates rates;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string one(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const size_t equals = one.find('=');
    if (equals == std::string::npos) return badRates(text, "'" + one + "' is not key=value");
    const std::string key = one.substr(0, equals);
    char* end = nullptr;
    const double value = std::strtod(one.c_str() + equals + 1, &end);
    if (end == one.c_str() + equals + 1 || *end != '\0' || !(value >= 0) || value > 1e9) {
      return badRates(text, "'" + one + "' has no number of 0 or more");
    }
    const std::array<std::pair<std::string_view, double*>, 4> chances = {{{"loss", &rates.loss},
                                                                          {"duplicate", &rates.duplicate},
                                                                          {"reorder", &rates.reorder},
                                                                          {"corrupt", &rates.corrupt}}};
    const auto chance = std::ranges::find(chances, std::string_view(key), &std::pair<std::string_view, double*>::first);
    if (chance != chances.end()) {
      if (value > 100) return badRates(text, "'" + one + "' is more than 100 per cent");
      *chance->second = value / 100;
    } else if (key == "delay_us") {
      rates.delay_ns_max = static_cast<int64_t>(value * 1000);
    } else if (key == "seed") {
      rates.seed = static_cast<uint64_t>(value);
    } else {
      return badRates(text, "there is no '" + key + "'");
    }
  }
  return rates;
}

FaultyPort::FaultyPort(FramePort& inner, const FaultRates& rates, runtime::Clock& clock)
    : inner_(inner), rates_(rates), clock_(clock), facts_(inner.facts()), random_(rates.seed) {
  // Frames that are held back do not wake the thread when their time comes.
  facts_.has_wakeups = false;
}

FaultyPort::~FaultyPort() {
  const auto giveBack = [this](const std::unique_ptr<Held>& held) {
    if (held->copy.empty()) inner_.release(held->frame);
  };
  std::ranges::for_each(ready_, giveBack);
  std::ranges::for_each(delayed_, giveBack);
}

uint32_t FaultyPort::receive(std::span<InFrame> into) {
  std::array<InFrame, 32> frames;
  const uint32_t arrived = inner_.receive(std::span(frames).first(std::min(into.size(), frames.size())));
  if (arrived != 0 || !delayed_.empty()) {
    const int64_t now_ns = clock_.nowNs();
    for (const InFrame& frame : std::span(frames).first(arrived)) takeIn(frame, now_ns);
    for (size_t i = 0; i < delayed_.size();) {
      if (delayed_[i]->due_ns > now_ns) {
        ++i;
        continue;
      }
      ready_.push_back(std::move(delayed_[i]));
      delayed_[i] = std::move(delayed_.back());
      delayed_.pop_back();
    }
  }
  uint32_t count = 0;
  for (; count < into.size() && !ready_.empty(); ++count) {
    Held* const held = ready_.front().release();
    ready_.pop_front();
    into[count] = {held->frame.bytes, held->frame.length, held};
  }
  return count;
}

void FaultyPort::takeIn(const InFrame& frame, int64_t now_ns) {
  if (random_.chance(rates_.loss)) return inner_.release(frame);
  if (random_.chance(rates_.duplicate)) {
    auto copy = std::make_unique<Held>();
    copy->copy.assign(frame.bytes, frame.bytes + frame.length);
    copy->frame = {copy->copy.data(), frame.length, nullptr};
    keep(std::move(copy), now_ns);
  }
  if (random_.chance(rates_.corrupt) && frame.length != 0) {
    frame.bytes[random_.below(frame.length)] ^= std::byte(1u << random_.below(8));
  }
  auto held = std::make_unique<Held>();
  held->frame = frame;
  keep(std::move(held), now_ns);
}

void FaultyPort::keep(std::unique_ptr<Held> held, int64_t now_ns) {
  if (!random_.chance(rates_.reorder) || rates_.delay_ns_max <= 0) {
    ready_.push_back(std::move(held));
    return;
  }
  held->due_ns = now_ns + static_cast<int64_t>(random_.below(static_cast<uint64_t>(rates_.delay_ns_max)));
  delayed_.push_back(std::move(held));
}

void FaultyPort::release(const InFrame& frame) noexcept {
  const std::unique_ptr<Held> held(static_cast<Held*>(frame.handle));
  if (held->copy.empty()) inner_.release(held->frame);
}

}  // namespace ramcore::transport::datagram
