// SPDX-License-Identifier: Apache-2.0
#include "early_end.h"

#include "trireme/comm/cause.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/divergence.h"

namespace trireme::app {
namespace {

/// "in step 14 of 300", "after step 12 of 300".
std::string place_text(const Place& place) {
  if (place.step == 0) return "before the first step";
  return concat(place.told < place.step ? "in" : "after", " step ", place.step, " of ",
                place.steps);
}

}  // namespace

record::EarlyEnd early_end(const std::exception& error, const Place& place) {
  using record::Ending;
  if (comm::ending_of(error) == comm::Ending::kStopped)
    return {.ending = Ending::kStopped,
            .step = place.step,
            .words = concat("stopped ", place_text(place))};
  const std::string words = words_of(error);
  if (const auto lost = runtime::divergence_in(words))
    return {.ending = Ending::kDiverged,
            .step = lost->step,
            .words = concat("diverged in step ", lost->step, " of ", place.steps, ": ", lost->what,
                            " is no number")};
  return {.ending = Ending::kFailed,
          .step = place.step,
          .words = concat("failed ", place_text(place), ": ", words)};
}

}  // namespace trireme::app
