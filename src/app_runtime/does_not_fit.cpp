// SPDX-License-Identifier: Apache-2.0
#include "does_not_fit.h"

#include "rank_device.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <utility>

namespace trireme::app {

DoesNotFit::DoesNotFit(plan::Infeasible infeasible)
    : DoesNotFit(infeasible, infeasible.least_budget) {}

DoesNotFit::DoesNotFit(plan::Infeasible infeasible, const RankDevice& device)
    : DoesNotFit(infeasible, device.budget_for(infeasible.least_budget)) {}

DoesNotFit::DoesNotFit(plan::Infeasible infeasible, Bytes least)
    : EndingError(
          comm::Ending::kDoesNotFit,
          concat("infeasible: rank ", infeasible.rank, " with layers ", infeasible.first_layer,
                 "..", infeasible.last_layer, " needs ", report::exact_text(infeasible.needed),
                 infeasible.where.empty() ? "" : concat(" (", where_and_advice(infeasible), ")"),
                 ", it has ", report::exact_text(infeasible.available),
                 "; the smallest budget that works is ", report::exact_text(least),
                 least == infeasible.least_budget
                     ? ""
                     : concat(", of which plans get ", to_text(infeasible.least_budget),
                              ": the rest is for workspaces and gaps between tensors"))),
      infeasible_(std::move(infeasible)) {}

}  // namespace trireme::app
