"""Prints figures of benchmarks: medians of rounds with quartiles."""

import json


def quartile(rounds, share):
    ordered = sorted(rounds)
    return ordered[round(share * (len(ordered) - 1))]


def ratios(ours, theirs):
    return [a / b for a, b in zip(ours, theirs)]


class Report:
    """Medians with quartiles, for people as they come and for programs at the end."""

    def __init__(self, quiet):
        self.quiet, self.results = quiet, []

    def figure(self, name, unit, rounds, at_most=None, at_least=None, beside=None):
        """`beside`: the same of another build, in the same rounds."""
        low, median, high = (quartile(rounds, share) for share in (0.25, 0.5, 0.75))
        result = {"name": name, "unit": unit, "median": median, "low": low, "high": high}
        text = f"  {name:<52} {median:10.2f} {unit:<6} quartiles {low:9.2f} .. {high:9.2f}"
        if at_most is not None or at_least is not None:
            result["met"] = median <= at_most if at_most is not None else median >= at_least
            text += f"  target {'<=' if at_most is not None else '>='} {at_most or at_least:.4g}: "
            text += "met" if result["met"] else "MISSED"
        if beside is not None:
            result["other"] = quartile(beside, 0.5)
            text += f"  other build {result['other']:.2f}"
            if min(beside) > 0:
                result["by_other"] = quartile(ratios(rounds, beside), 0.5)
                text += f": {result['by_other']:.2f}x"
        self.results.append(result)
        if not self.quiet:
            print(text, flush=True)

    def finish(self, bench, settings):
        summary = {"bench": bench, **settings, "results": self.results}
        print(json.dumps(summary, indent=2) if self.quiet else "json " + json.dumps(summary))

