// SPDX-License-Identifier: Apache-2.0
#include "choices.h"

#include "memory/offload.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

/// 1/kMargin of a budget stays free where programs were made for more: with streamed weights a step
/// holds some hundred bytes that no layer's profile has, such as sums of squares for the norm.
constexpr std::int64_t kMargin = 512;

bool streams_trained(const Question& question) {
  bool all_trained = true;
  for (const int layer : all_to_stream(question.chain))
    all_trained = all_trained && question.chain.layer(layer).may_leave().is_trained;
  return all_trained && some_can_stream(question) &&
         (!question.streamed || !question.streamed->empty());
}

/// Streamed frozen weights have no updates, so there is no overlapped optimizer step.
void require_trained(const Question& question) {
  if (question.updates == UpdatePlace::kAtEnd || !some_can_stream(question)) return;
  for (const int layer : question.streamed.value_or(all_to_stream(question.chain)))
    if (!question.chain.layer(layer).may_leave().is_trained)
      throw InputError(
          concat("updates: found '", program::name(*question.updates), "', but layer ", layer, " (",
                 question.chain.layer(layer).name,
                 "), whose weights may be streamed, is frozen; use 'at_end' or 'auto'"));
}

/// The one with the largest absolute value.
Bytes largest_of(const std::vector<Bytes>& bytes) {
  const auto size = [](Bytes one) { return std::max(one, -one); };
  Bytes largest;
  for (const Bytes one : bytes)
    if (size(one) > size(largest)) largest = one;
  return largest;
}

}  // namespace

std::optional<UpdatePlace> updates_of(const std::string& place) {
  if (place == "auto") return std::nullopt;
  const std::optional<UpdatePlace> named = program::update_place_named(place);
  ensure(named.has_value(), concat("'", place, "' is a place of updates"));
  return named;
}

UpdatePlace updates_among_passes(const Question& question) {
  if (question.updates) {
    require_trained(question);
    return *question.updates;
  }
  if (question.stages > 1 || !streams_trained(question)) return UpdatePlace::kAtEnd;
  return question.clips || question.replicas > 1 ? UpdatePlace::kInForward
                                                 : UpdatePlace::kInBackward;
}

Question settled(const Question& question, const Choices& choices) {
  Question asked = question;
  asked.solver = choices.solver;
  asked.breadth = choices.breadth;
  asked.slots = choices.slots;
  asked.optimizer_copies = choices.optimizer_copies;
  asked.streamed = choices.streamed;
  asked.weights_at_once = choices.weights_at_once;
  asked.group = choices.group;
  asked.updates = choices.updates;
  asked.update_window = choices.update_window;
  if (choices.cut) asked.cut = choices.cut;
  asked.chunks = choices.chunks;
  asked.more = choices.more;
  if (std::none_of(asked.more.begin(), asked.more.end(), [](Bytes one) { return one > Bytes(0); }))
    return asked;
  for (std::size_t rank = 0; rank < asked.more.size(); ++rank) {
    Bytes& memory = asked.platform.ranks[rank].memory;
    asked.more[rank] += memory / kMargin;
    memory -= memory / kMargin;
  }
  return asked;
}

Choices plainest(const Question& question) {
  return {.solver = question.solver,
          .breadth = question.breadth,
          .slots = question.slots,
          .optimizer_copies = question.optimizer_copies.value_or(Seconds(0)),
          .streamed = question.streamed.value_or(std::vector<int>{}),
          .weights_at_once = question.weights_at_once.value_or(program::kLeastAtOnce),
          .group = question.group.value_or(1),
          .updates = question.updates.value_or(UpdatePlace::kAtEnd),
          .update_window = question.update_window,
          .chunks = has_named_schedule(question) ? question.chunks : kNoChunks};
}

void set_schedule(Question& question, const std::string& schedule) {
  const bool is_usual = schedule::has_usual_order(schedule);
  question.schedule = is_usual ? schedule : "1f1b";
  question.chunks = is_usual ? kNoChunks : schedule;
  question.shares_ranks = schedule == kSearchedChunks;
}

bool has_named_schedule(const Question& question) {
  return question.chunks != kNoChunks && question.chunks != kSearchedChunks;
}

Choices with_whole_backwards(Choices choices) {
  choices.splits_backward = false;
  return choices;
}

Choices tidy(const Question& question, Choices choices) {
  if (!question.streamed &&
      !saves_memory(question.chain, choices.streamed, choices.weights_at_once))
    choices.streamed.clear();
  if (!choices.streamed.empty()) return choices;
  if (!question.weights_at_once) choices.weights_at_once = program::kLeastAtOnce;
  if (!question.group) choices.group = 1;
  if (!question.updates) choices.updates = UpdatePlace::kAtEnd;
  choices.update_window = question.update_window;
  return choices;
}

Choices streaming(const Question& question, Choices choices, std::vector<int> layers) {
  if (choices.streamed.empty()) choices.updates = updates_among_passes(question);
  choices.streamed = std::move(layers);
  return tidy(question, std::move(choices));
}

std::string to_text(const Choices& choices) {
  std::vector<std::string> parts{choices.solver};
  if (choices.slots != Effort{}.slots) parts.push_back(concat(choices.slots, " slots"));
  if (choices.breadth != 1) parts.push_back(concat("breadth ", choices.breadth));
  if (choices.optimizer_copies == kAnyTime)
    parts.emplace_back("optimizer state offloaded");
  else if (choices.optimizer_copies > Seconds(0))
    parts.push_back(
        concat("optimizer state offloaded, copies of ", to_text(choices.optimizer_copies)));
  if (!choices.streamed.empty())
    parts.push_back(concat(choices.streamed.size(), " layers streamed (", choices.weights_at_once,
                           " on the device)"));
  if (choices.group > 1) parts.push_back(concat("breadth-first groups of ", choices.group));
  if (choices.updates != UpdatePlace::kAtEnd)
    parts.push_back(concat("updates ", program::name(choices.updates)));
  if (choices.update_window)
    parts.push_back(concat("update window ", to_text(*choices.update_window)));
  if (choices.cut) {
    std::vector<std::string> ends;
    for (const int last : *choices.cut) ends.push_back(concat(last));
    parts.push_back(concat("cut after ", join(ends, " ")));
  }
  if (choices.splits_backward) parts.emplace_back("split backward");
  if (choices.chunks == kSearchedChunks)
    parts.emplace_back("several chunks on every rank");
  else if (choices.chunks != kNoChunks)
    parts.push_back(choices.chunks);
  if (const Bytes most = largest_of(choices.more); most > Bytes(0))
    parts.push_back(concat("programs made for ", to_text(most), " above the budget"));
  else if (most < Bytes(0))
    parts.push_back(concat(to_text(-most), " of the budget left free"));
  return join(parts, ", ");
}

}  // namespace trireme::partition
