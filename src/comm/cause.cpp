// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cause.h"

#include "trireme/core/text.h"

#include <utility>

namespace trireme::comm {

Ending ending_of(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return Ending::kWrongInput;
  if (dynamic_cast<const Interrupted*>(&error) != nullptr) return Ending::kStopped;
  if (const auto* one = dynamic_cast<const EndingError*>(&error)) return one->ending();
  if (const auto* heard = dynamic_cast<const RankFailed*>(&error)) return heard->ending();
  return Ending::kFailed;
}

Cause cause_of(int rank, const std::exception& error) {
  using Weight = Cause::Weight;
  const bool follows = dynamic_cast<const RankFailed*>(&error) != nullptr ||
                       dynamic_cast<const GivenUpError*>(&error) != nullptr;
  const Ending ending = ending_of(error);
  const Weight weight = follows                                             ? Weight::kConsequence
                        : ending == Ending::kStopped                        ? Weight::kStop
                        : dynamic_cast<const CommError*>(&error) != nullptr ? Weight::kTransport
                                                                            : Weight::kError;
  return {rank, ending, weight, words_of(error)};
}

RankFailed::RankFailed(const Cause& cause)
    : CommError(concat(
          "rank ", cause.rank,
          cause.ending == Ending::kStopped ? " ended the job: " : " failed: ", cause.reason)),
      ending_(cause.ending) {}

bool Outcome::report(const Cause& own) {
  if (cause_ && cause_->weight >= own.weight) return false;
  cause_ = own;
  return true;
}

void Outcome::hear(const Cause& other) {
  const auto order = [](const Cause& cause) { return std::pair(cause.weight, -cause.rank); };
  if (!cause_ || order(other) > order(*cause_)) cause_ = other;
}

}  // namespace trireme::comm
