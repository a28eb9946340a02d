// SPDX-License-Identifier: Apache-2.0
#include "update_place.h"

#include "memory/state_away.h"
#include "memory/streamed_layers.h"
#include "memory/update_window.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <array>
#include <future>
#include <utility>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

constexpr const char* kAtEnd = "updates at the end of a step";
constexpr std::array kSmallerWindows{4, 16};

UpdatePlace allowed(const Question& question) {
  return question.clips || question.replicas > 1 ? UpdatePlace::kInForward
                                                 : UpdatePlace::kInBackward;
}

bool streams_trained(const Question& question) {
  bool all_trained = true;
  for (const int layer : all_to_stream(question.chain))
    all_trained = all_trained && question.chain.layer(layer).may_leave().is_trained;
  return all_trained && some_can_stream(question) &&
         (!question.streamed || !question.streamed->empty());
}

/// Frozen weights that are streamed have no updates for others to stand among.
void require_trained(const Question& question) {
  if (!question.updates || question.updates == UpdatePlace::kAtEnd || !some_can_stream(question))
    return;
  for (const int layer : question.streamed.value_or(all_to_stream(question.chain)))
    if (!question.chain.layer(layer).may_leave().is_trained)
      throw InputError(
          concat("updates: found '", program::name(*question.updates), "', but layer ", layer, " (",
                 question.chain.layer(layer).name,
                 "), whose weights may be streamed, is frozen; use 'at_end' or 'auto'"));
}

/// With less state on its way where nothing fits otherwise.
Answer with_window_that_fits(const Question& question, const Planner& planner) {
  if (question.updates == UpdatePlace::kAtEnd || question.update_window) return planner(question);
  Question asked = question;
  Answer answer = planner(asked);
  for (const int part : kSmallerWindows) {
    if (std::holds_alternative<plan::Plan>(answer)) break;
    asked.update_window = std::max(least_window(question.chain), update_window(question) / part);
    answer = planner(asked);
  }
  return answer;
}

}  // namespace

std::optional<UpdatePlace> updates_of(const std::string& place) {
  if (place == "auto") return std::nullopt;
  const std::optional<UpdatePlace> named = program::update_place_named(place);
  ensure(named.has_value(), concat("'", place, "' is a place of updates"));
  return named;
}

Question with_updates_among_passes(Question question) {
  require_trained(question);
  if (question.updates) return question;
  const bool may_have = question.stages == 1 && streams_trained(question);
  question.updates = may_have ? allowed(question) : UpdatePlace::kAtEnd;
  return question;
}

Answer with_best_updates(const Question& question, const Planner& planner) {
  const Question among = with_updates_among_passes(question);
  if (question.updates || among.updates == UpdatePlace::kAtEnd)
    return with_window_that_fits(among, planner);
  Question at_end = question;
  at_end.updates = UpdatePlace::kAtEnd;
  auto other = std::async(std::launch::async, planner, at_end);
  Answer answer = with_window_that_fits(among, planner);
  Answer then = other.get();
  auto* const found = std::get_if<plan::Plan>(&answer);
  const auto* const beside = std::get_if<plan::Plan>(&then);
  if (found == nullptr || (beside != nullptr && beside->step <= found->step)) return then;
  if (found->updates == UpdatePlace::kAtEnd) return answer;
  found->alternatives.push_back(as_alternative(kAtEnd, then));
  return answer;
}

}  // namespace trireme::partition
