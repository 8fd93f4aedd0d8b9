#pragma once

#include <optional>
#include <string>

#include "tools/rcmigrate/plan.h"
#include "tools/rcmigrate/plan_input.h"
#include "tools/support/json.h"

namespace ramcore::rcmigrate {

/// "bytes", "objects", "load".
std::string nameOf(Measure measure);
/// Nothing if the text is none of these.
std::optional<Measure> measureOf(const std::string& text);

/// A plan for people: each server now and as it will be, the steps, keys that are too hot. Ends with a newline.
std::string textOf(const PlanInput& input, const Plan& plan, Measure measure);
/// The same as JSON.
tools::Json jsonOf(const PlanInput& input, const Plan& plan, Measure measure);

}  // namespace ramcore::rcmigrate
