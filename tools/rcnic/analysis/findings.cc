#include "tools/rcnic/analysis/findings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "tools/rcnic/analysis/experiments.h"

namespace ramcore::rcnic {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The share of the link that copy-out reached where the paper calls the link saturated: 5.6 of 5.8 GB/s.
constexpr double kSaturatedShare = 0.95;
// For findings where a paper gives only a direction: more, or less, by more than rounds of the same shape usually
// differ.
constexpr double kMore = 1.03;
constexpr double kLess = 0.97;

constexpr std::string_view kCopyPaper = "Kesavan, Ricci, Stutsman: To Copy or Not to Copy, IMDM 2016";
constexpr std::string_view kThesis = "Kesavan: thesis draft, Utah 2016";
constexpr std::string_view kSurvey = "Hemmatpour: dissertation, Torino 2019";

Shape recordsOf(Mode mode, uint32_t record_bytes, uint32_t records) {
  return Shape{.mode = mode, .record_bytes = record_bytes, .records = records};
}

// The best median of a figure, as `is_better` says, over all numbers of records except 0.
template <typename Better>
double bestOf(Evidence& evidence, const std::string& experiment, Shape shape, Figure figure, Better is_better) {
  double best = 0;
  for (const uint32_t records : evidence.recordCounts(experiment, shape)) {
    if (records == 0) continue;
    shape.records = records;
    const double value = evidence.median(experiment, shape, figure);
    if (best == 0 || is_better(value, best)) best = value;
  }
  return best;
}

double fastest(Evidence& evidence, const std::string& experiment, const Shape& shape) {
  return bestOf(evidence, experiment, shape, &Sample::bytesPerSecond, [](double a, double b) { return a > b; });
}

double cheapest(Evidence& evidence, const std::string& experiment, const Shape& shape) {
  return bestOf(evidence, experiment, shape, &Sample::cyclesPerByte, [](double a, double b) { return a < b; });
}

double over(double value, double divisor) { return divisor > 0 ? value / divisor : 0; }

// The ratio of zero-copy to copy-out for each number of records for which both modes were measured.
std::vector<double> zeroCopyOverCopyOut(Evidence& evidence, uint32_t record_bytes, Figure figure) {
  const std::vector<uint32_t> gathered = evidence.recordCounts("copy", recordsOf(Mode::ZeroCopy, record_bytes, 1));
  const std::vector<uint32_t> copied = evidence.recordCounts("copy", recordsOf(Mode::CopyOut, record_bytes, 1));
  std::vector<double> ratios;
  for (const uint32_t records : gathered) {
    if (!std::binary_search(copied.begin(), copied.end(), records)) continue;
    ratios.push_back(evidence.ratio("copy", recordsOf(Mode::ZeroCopy, record_bytes, records),
                                    recordsOf(Mode::CopyOut, record_bytes, records), figure));
  }
  if (ratios.empty()) evidence.want("experiment copy, both modes with the same number of records");
  return ratios;
}

double zeroCopySaturates(Evidence& evidence) {
  return evidence.saturatedFrom("copy", recordsOf(Mode::ZeroCopy, kLargeRecordBytes, 1), kSaturatedShare, 6);
}

double copyOutSaturates(Evidence& evidence) {
  return evidence.saturatedFrom("copy", recordsOf(Mode::CopyOut, kLargeRecordBytes, 1), kSaturatedShare, 16);
}

double smallZeroCopyShare(Evidence& evidence) {
  const double best = fastest(evidence, "copy", recordsOf(Mode::ZeroCopy, kSmallRecordBytes, 1));
  return 100 * over(best, evidence.peak("copy"));
}

double smallCopyOutGain(Evidence& evidence) {
  return over(fastest(evidence, "copy", recordsOf(Mode::CopyOut, kSmallRecordBytes, 1)),
              fastest(evidence, "copy", recordsOf(Mode::ZeroCopy, kSmallRecordBytes, 1)));
}

double largeZeroCopyGain(Evidence& evidence) {
  const std::vector<double> ratios = zeroCopyOverCopyOut(evidence, kLargeRecordBytes, &Sample::bytesPerSecond);
  return ratios.empty() ? 0 : *std::max_element(ratios.begin(), ratios.end());
}

double largeZeroCopyGainOf16(Evidence& evidence) {
  return evidence.ratio("copy", recordsOf(Mode::ZeroCopy, kLargeRecordBytes, 16),
                        recordsOf(Mode::CopyOut, kLargeRecordBytes, 16), &Sample::bytesPerSecond);
}

double largeCyclesSaved(Evidence& evidence) {
  const std::vector<double> ratios = zeroCopyOverCopyOut(evidence, kLargeRecordBytes, &Sample::cyclesPerByte);
  return ratios.empty() ? 0 : 100 * (1 - *std::min_element(ratios.begin(), ratios.end()));
}

double smallCyclesSaved(Evidence& evidence) {
  return 100 * (1 - over(cheapest(evidence, "copy", recordsOf(Mode::ZeroCopy, kSmallRecordBytes, 1)),
                         cheapest(evidence, "copy", recordsOf(Mode::CopyOut, kSmallRecordBytes, 1))));
}

Shape pageWith(uint32_t delta_bytes, uint32_t deltas) {
  return Shape{.base_bytes = kBasePageBytes, .record_bytes = delta_bytes, .records = deltas};
}

double deltasShare(Evidence& evidence) {
  double worst = kInfinite;
  for (const uint32_t deltas : evidence.recordCounts("deltas", pageWith(kSmallRecordBytes, 1))) {
    worst = std::min(worst, evidence.median("deltas", pageWith(kSmallRecordBytes, deltas), &Sample::bytesPerSecond));
  }
  return 100 * over(worst, evidence.peak("deltas"));
}

double deltasGain(Evidence& evidence) {
  return over(fastest(evidence, "deltas", pageWith(kSmallRecordBytes, 1)),
              fastest(evidence, "deltas", recordsOf(Mode::ZeroCopy, kSmallRecordBytes, 1)));
}

double deltasCyclesSaved(Evidence& evidence) {
  return 100 * (1 - over(cheapest(evidence, "deltas", pageWith(kSmallRecordBytes, 1)),
                         cheapest(evidence, "deltas", recordsOf(Mode::ZeroCopy, kSmallRecordBytes, 1))));
}

Shape oneOf(Operation operation, Mode mode, uint32_t bytes, uint32_t signal_every = kSignalEvery) {
  return Shape{.operation = operation, .mode = mode, .record_bytes = bytes, .records = 1, .signal_every = signal_every};
}

// From 128 B on, as far as the adapter takes such messages; the paper's adapter took 912 B.
double inlineOverCopyOut(Evidence& evidence) {
  std::vector<double> ratios;
  for (const uint32_t bytes : {128U, 256U, 512U, 912U}) {
    const bool is_needed = bytes <= 256;
    if (!is_needed && !evidence.has("inline", oneOf(Operation::Send, Mode::Inline, bytes))) continue;
    ratios.push_back(evidence.ratio("inline", oneOf(Operation::Send, Mode::Inline, bytes),
                                    oneOf(Operation::Send, Mode::CopyOut, bytes), &Sample::bytesPerSecond));
  }
  return quartilesOf(std::move(ratios)).median;
}

double hugePagesGain(Evidence& evidence) {
  Shape small = recordsOf(Mode::ZeroCopy, kLargeRecordBytes, 16);
  Shape huge = small;
  huge.page_kb = kHugePageKb;
  return evidence.ratio("pages", huge, small, &Sample::bytesPerSecond);
}

double operationRatio(Evidence& evidence, Operation ours, Operation theirs) {
  std::vector<double> ratios;
  for (const uint32_t bytes : {16U, 64U, 256U, 1024U}) {
    ratios.push_back(evidence.ratio("operations", oneOf(ours, Mode::ZeroCopy, bytes),
                                    oneOf(theirs, Mode::ZeroCopy, bytes), &Sample::messagesPerSecond));
  }
  return quartilesOf(std::move(ratios)).median;
}

double writeOverRead(Evidence& evidence) { return operationRatio(evidence, Operation::Write, Operation::Read); }
double sendOverRead(Evidence& evidence) { return operationRatio(evidence, Operation::Send, Operation::Read); }

double unsignalledGain(Evidence& evidence) {
  return evidence.ratio("signals", oneOf(Operation::Send, Mode::ZeroCopy, 8, kSignalEveryMost),
                        oneOf(Operation::Send, Mode::ZeroCopy, 8, 1), &Sample::messagesPerSecond);
}

double inlineGain(Evidence& evidence, Operation operation) {
  return evidence.ratio("signals", oneOf(operation, Mode::Inline, 8, kSignalEveryMost),
                        oneOf(operation, Mode::ZeroCopy, 8, kSignalEveryMost), &Sample::messagesPerSecond);
}

double writeInlineOverSendInline(Evidence& evidence) {
  return over(inlineGain(evidence, Operation::Write), inlineGain(evidence, Operation::Send));
}

double inlineUnsignalledGain(Evidence& evidence) {
  return evidence.ratio("signals", oneOf(Operation::Write, Mode::Inline, 8, kSignalEveryMost),
                        oneOf(Operation::Write, Mode::ZeroCopy, 8, 1), &Sample::messagesPerSecond);
}

double largerRecordsGain(Evidence& evidence) {
  std::vector<double> ratios;
  for (const uint32_t records : {1U, 4U, 16U}) {
    ratios.push_back(evidence.ratio("lengths", recordsOf(Mode::ZeroCopy, 1000, records),
                                    recordsOf(Mode::ZeroCopy, 100, records), &Sample::bytesPerSecond));
  }
  return *std::min_element(ratios.begin(), ratios.end());
}

constexpr std::array kFindings = {
    Finding{"zero-copy-saturates", kCopyPaper, "5.1, figure 3",
            "gathered records of 1024 B saturate the link from this many in a transmission on", "records", 6, 3, 12,
            &zeroCopySaturates},
    Finding{"copy-out-saturates", kCopyPaper, "5.1, figure 3",
            "records of 1024 B that are copied together saturate the link from 16 kB on", "records", 16, 8, 32,
            &copyOutSaturates},
    Finding{"small-zero-copy-does-not", kCopyPaper, "5.1, figure 3",
            "gathered records of 128 B never saturate the link: 32 entries reach 3.5 of 5.8 GB/s", "% of the link", 60,
            0, 100 * kSaturatedShare, &smallZeroCopyShare},
    Finding{"small-copy-out-is-faster", kCopyPaper, "5.2",
            "records of 128 B: copy-out at its best is up to 53 % faster than zero-copy at its best", "x", 1.53, 1.2,
            2.0, &smallCopyOutGain},
    Finding{"large-zero-copy-is-faster", kCopyPaper, "5.1, figure 3",
            "records of 1024 B: zero-copy is up to 29 % faster than copy-out of the same bytes", "x", 1.29, 1.1, 1.6,
            &largeZeroCopyGain},
    Finding{"gain-ends-at-16-records", kCopyPaper, "5.1, figure 3",
            "16 records of 1024 B: the gain of zero-copy over copy-out is almost gone", "x", 1.04, 0.9, 1.1,
            &largeZeroCopyGainOf16},
    Finding{"large-zero-copy-saves-cycles", kCopyPaper, "5.2, figure 5",
            "records of 1024 B: zero-copy saves up to 76 % of the cycles for a byte", "% fewer cycles", 76, 50, 100,
            &largeCyclesSaved},
    Finding{"small-zero-copy-saves-little", kCopyPaper, "5.2, figure 5",
            "records of 128 B: zero-copy saves 12 % of the cycles for a byte, because copy-out sends more at a time",
            "% fewer cycles", 12, -10, 35, &smallCyclesSaved},
    Finding{"page-and-deltas-saturate", kCopyPaper, "5.3, figure 6",
            "a page of 16 kB with any number of records of 128 B behind it keeps the link saturated", "% of the link",
            98, 90, 100, &deltasShare},
    Finding{"page-and-deltas-are-faster", kCopyPaper, "5.3, figure 6",
            "a page of 16 kB with records of 128 B behind it gives 1.7 times what gathering such records alone gives",
            "x", 1.7, 1.35, 2.2, &deltasGain},
    Finding{"page-and-deltas-save-cycles", kCopyPaper, "5.3, 6",
            "a page of 16 kB with records of 128 B behind it takes 75 % less of the processor for a byte",
            "% fewer cycles", 75, 50, 100, &deltasCyclesSaved},
    Finding{"inline-is-copy-out", kThesis, "2.5",
            "data inside the descriptor (up to 912 B) gives the throughput of copy-out", "x", 1.0, 0.8, 1.25,
            &inlineOverCopyOut},
    Finding{"huge-pages-do-not-matter", kThesis, "2.6.2",
            "the adapter's page tables reach far enough: huge pages change nothing", "x", 1.0, 0.95, 1.05,
            &hugePagesGain},
    Finding{"larger-records-are-faster", kThesis, "2.6.1, figures 2.2 and 2.3",
            "records of 1000 B give more throughput than as many records of 100 B", "x, the least", std::nullopt, kMore,
            kInfinite, &largerRecordsGain},
    Finding{"write-beats-read", kSurvey, "7.2, figure 7.3", "there are more small WRITEs a second than READs", "x",
            std::nullopt, kMore, kInfinite, &writeOverRead},
    Finding{"send-is-slowest", kSurvey, "7.2, figure 7.3", "there are far fewer small SENDs a second than READs", "x",
            std::nullopt, 0, kLess, &sendOverRead},
    Finding{"unsignalled-is-faster", kSurvey, "7.2, figure 7.4",
            "there are more SENDs of 8 B a second when few of them ask for a completion", "x", std::nullopt, kMore,
            kInfinite, &unsignalledGain},
    Finding{"inline-helps-writes-most", kSurvey, "7.2, figures 7.5 and 7.6",
            "messages of 8 B: WRITE gains more by being inside the descriptor than SEND", "x", std::nullopt, kMore,
            kInfinite, &writeInlineOverSendInline},
    Finding{"inline-unsignalled-writes", kSurvey, "7.2, figure 7.6",
            "WRITEs of 8 B: inline data and few completions together give up to 4.9 times as many", "x", 4.9, 1.2, 6.5,
            &inlineUnsignalledGain},
};

std::string numberText(double value, std::string_view unit) {
  if (value == kInfinite) return "never";
  char text[64];
  std::snprintf(text, sizeof text, unit.starts_with("x") ? "%.2f%s" : "%.3g %s", value, std::string(unit).c_str());
  return text;
}

std::string bandText(const Finding& finding) {
  char text[64];
  if (finding.high == kInfinite) {
    std::snprintf(text, sizeof text, "from %.4g on", finding.low);
  } else {
    std::snprintf(text, sizeof text, "from %.4g to %.4g", finding.low, finding.high);
  }
  return text;
}

}  // namespace

std::span<const Finding> findings() { return kFindings; }

const Finding* findingOf(std::string_view name) {
  const auto* const found =
      std::find_if(kFindings.begin(), kFindings.end(), [&](const Finding& finding) { return finding.name == name; });
  return found == kFindings.end() ? nullptr : found;
}

std::string_view nameOf(Judgement judgement) {
  switch (judgement) {
    case Judgement::Confirmed:
      return "confirmed";
    case Judgement::Refuted:
      return "refuted";
    case Judgement::Noisy:
      return "noisy";
    case Judgement::NotMeasured:
      return "not measured";
    case Judgement::MeansNothing:
      return "means nothing";
  }
  return "?";
}

Verdict judge(const Finding& finding, const Dataset& dataset) {
  Evidence evidence(dataset);
  const double measured = finding.read(evidence);
  Verdict verdict{.finding = &finding, .judgement = Judgement::NotMeasured, .measured = {}, .why = {}};
  if (!evidence.missing().empty()) {
    verdict.why = "it needs " + evidence.missing();
    return verdict;
  }
  verdict.measured = measured;
  if (dataset.subject().is_software) {
    verdict.judgement = Judgement::MeansNothing;
    verdict.why = dataset.subject().name() + " is no adapter";
    return verdict;
  }
  if (evidence.spread() > kSpreadMax) {
    char text[96];
    std::snprintf(text, sizeof text, "rounds of the same shape differ by %.1fx; measure again on a quiet machine",
                  evidence.spread());
    verdict.judgement = Judgement::Noisy;
    verdict.why = text;
    return verdict;
  }
  verdict.judgement = measured >= finding.low && measured <= finding.high ? Judgement::Confirmed : Judgement::Refuted;
  return verdict;
}

std::string textOf(const Verdict& verdict) {
  const Finding& finding = *verdict.finding;
  std::string text(finding.name);
  text += ": " + std::string(finding.claim) + "\n  (" + std::string(finding.paper) + ", " +
          std::string(finding.section) + ")\n  predicted " +
          (finding.predicted ? numberText(*finding.predicted, finding.unit) : std::string("without a number")) +
          ", confirmed " + bandText(finding) + "; measured " +
          (verdict.measured ? numberText(*verdict.measured, finding.unit) : std::string("nothing")) +
          "; verdict: " + std::string(nameOf(verdict.judgement));
  if (!verdict.why.empty()) text += " (" + verdict.why + ")";
  return text + "\n";
}

std::string verdictsOf(const Dataset& dataset) {
  std::string text = dataset.subject().name() + ", held against the papers\n";
  if (dataset.subject().is_software) {
    text += dataset.subject().name() +
            " has no adapter: processors do all of it. The comparison means nothing about adapters; it shows that the "
            "way from figures to verdicts works.\n";
  }
  for (const Finding& finding : kFindings) text += textOf(judge(finding, dataset));
  return text;
}

}  // namespace ramcore::rcnic
