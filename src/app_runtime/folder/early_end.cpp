// SPDX-License-Identifier: Apache-2.0
#include "folder/early_end.h"

#include "trireme/comm/cause.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/divergence.h"

namespace trireme::app {
namespace {

/// "in step 14 of 300", "after step 12 of 300".
std::string progress_text(const RunProgress& progress) {
  if (progress.step == 0) return "before the first step";
  return concat(progress.told < progress.step ? "in" : "after", " step ", progress.step, " of ",
                progress.steps);
}

}  // namespace

record::EarlyEnd early_end(const std::exception& error, const RunProgress& progress) {
  using record::Ending;
  if (comm::ending_of(error) == comm::Ending::kStopped)
    return {.ending = Ending::kStopped,
            .step = progress.step,
            .words = concat("stopped ", progress_text(progress))};
  const std::string words = words_of(error);
  if (const auto lost = runtime::divergence_in(words))
    return {.ending = Ending::kDiverged,
            .step = lost->step,
            .words = concat("diverged in step ", lost->step, " of ", progress.steps, ": ",
                            lost->what, " is not finite")};
  return {.ending = Ending::kFailed,
          .step = progress.step,
          .words = concat("failed ", progress_text(progress), ": ", words)};
}

}  // namespace trireme::app
