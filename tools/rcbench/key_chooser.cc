#include "tools/rcbench/key_chooser.h"

#include <cmath>

#include "base/hash.h"

namespace ramcore::rcbench {
namespace {

// Terms that are added up one by one: tens of milliseconds for a million.
constexpr uint64_t kExactTermsMax = 10'000'000;

// 1/first^skew + ... + 1/last^skew. Each term beyond the first ten million is replaced by the integral of x^-skew over
// the interval of length 1 around it: the sum differs from the integral by less than 1e-14 there, and billions of
// records cost nothing.
double zetaPart(uint64_t first, uint64_t last, double skew) {
  double sum = 0;
  uint64_t i = first;
  for (; i <= last && i <= kExactTermsMax; ++i) sum += 1.0 / std::pow(static_cast<double>(i), skew);
  if (i > last) return sum;
  const double power = 1.0 - skew;
  const double low = std::pow(static_cast<double>(i) - 0.5, power);
  const double high = std::pow(static_cast<double>(last) + 0.5, power);
  return sum + (high - low) / power;
}

}  // namespace

ZipfianRank::ZipfianRank(uint64_t population, double skew)
    : skew_(skew), alpha_(1.0 / (1.0 - skew)), zeta_of_two_(1.0 + std::pow(0.5, skew)) {
  grow(population);
}

void ZipfianRank::grow(uint64_t population) {
  if (population <= population_) return;
  zeta_ += zetaPart(population_ + 1, population, skew_);
  population_ = population;
  update();
}

void ZipfianRank::update() {
  if (population_ <= 2) return;
  eta_ = (1.0 - std::pow(2.0 / static_cast<double>(population_), 1.0 - skew_)) / (1.0 - zeta_of_two_ / zeta_);
}

uint64_t ZipfianRank::next(runtime::Random& random) const {
  const double u = random.unit();
  const double uz = u * zeta_;
  if (population_ <= 1 || uz < 1.0) return 0;
  if (population_ == 2 || uz < zeta_of_two_) return 1;
  const auto rank = static_cast<uint64_t>(static_cast<double>(population_) * std::pow(eta_ * u - eta_ + 1.0, alpha_));
  return rank < population_ ? rank : population_ - 1;
}

KeyChooser::KeyChooser(Distribution distribution, double skew, uint64_t record_count)
    : distribution_(distribution), rank_(distribution == Distribution::Uniform ? 1 : record_count, skew) {}

uint64_t KeyChooser::next(uint64_t record_count, runtime::Random& random) {
  switch (distribution_) {
    case Distribution::Uniform:
      return random.below(record_count);
    case Distribution::Zipfian: {
      rank_.grow(record_count);
      // Neighbouring ranks would all be neighbouring records; hashing spreads them, as in YCSB.
      const uint64_t rank = rank_.next(random);
      return fingerprint(std::as_bytes(std::span(&rank, 1))) % record_count;
    }
    case Distribution::Latest:
      rank_.grow(record_count);
      return record_count - 1 - rank_.next(random);
  }
  return 0;
}

void InsertCounter::finish(uint64_t record) {
  finished_ahead_.insert(record);
  while (!finished_ahead_.empty() && *finished_ahead_.begin() == acknowledged_) {
    finished_ahead_.erase(finished_ahead_.begin());
    ++acknowledged_;
  }
}

}  // namespace ramcore::rcbench
