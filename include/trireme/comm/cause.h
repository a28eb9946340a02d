// Why a job ends: of all that its ranks report, the one error that the others follow from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"

#include <exception>
#include <optional>
#include <string>

namespace trireme::comm {

/// How a job ends; the numbers are exit codes.
enum class Ending { kFailed = 1, kWrongInput = 2, kDoesNotFit = 3, kStopped = 130 };

/// An error that says with which exit code it ends a job.
class EndingError : public Error {
 public:
  EndingError(Ending ending, const std::string& text) : Error(text), ending_(ending) {}
  Ending ending() const { return ending_; }

 private:
  Ending ending_;
};

/// A transfer that failed because an earlier one of its stream was withdrawn.
class GivenUpError : public CommError {
 public:
  using CommError::CommError;
};

/// What a rank reports when it gives up.
struct Cause {
  /// The heavier one explains the lighter one. A withdrawn transfer, or word of another rank's end,
  /// follows from something else; a wait in vain may follow from a stop or from an error.
  enum class Weight { kConsequence, kTransport, kStop, kError };

  int rank = 0;
  Ending ending = Ending::kFailed;
  Weight weight = Weight::kError;
  std::string reason;

  bool operator==(const Cause&) const = default;
};

/// The exit code that `error` ends a job with if nothing else does.
Ending ending_of(const std::exception& error);

/// `error` as `rank` reports it.
Cause cause_of(int rank, const std::exception& error);

/// What another rank's waits throw for it, as a CommError whose ending_of() is the cause's: "rank 2
/// failed: REASON", "rank 2 ended the job: REASON" for a stop.
class RankFailed : public CommError {
 public:
  explicit RankFailed(const Cause& cause);
  Ending ending() const { return ending_; }

 private:
  Ending ending_;
};

/// The cause of a job's end as far as one rank knows it. Ranks that have heard the same reports, in
/// whatever order, agree: hear() takes the maximum of a total order.
class Outcome {
 public:
  /// A report of this rank itself: counts unless a cause of its weight is known, from which it may
  /// follow. Returns whether it counts.
  bool report(const Cause& own);
  /// Of another rank: the heavier one counts, of equals that of the lower rank.
  void hear(const Cause& other);

  const std::optional<Cause>& cause() const { return cause_; }
  /// Whether that is what the errors of other ranks follow from, no consequence itself.
  bool is_explained() const { return cause_ && cause_->weight != Cause::Weight::kConsequence; }

 private:
  std::optional<Cause> cause_;
};

}  // namespace trireme::comm
