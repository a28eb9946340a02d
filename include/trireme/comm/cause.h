// Why a job ends: picks, from the errors that its ranks report, the one that caused the others.
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
  /// A heavier cause explains a lighter one. A withdrawn transfer, or a report of another rank's
  /// end, is a consequence of something else; a wait that times out may follow from a stop or an
  /// error.
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
  /// A report of this rank: counts unless a cause of at least its weight is known, which it may be
  /// a consequence of. Returns whether it counts.
  bool report(const Cause& own);
  /// A report of another rank: the heavier cause counts; at equal weight, that of the lower rank.
  void hear(const Cause& other);

  const std::optional<Cause>& cause() const { return cause_; }
  /// Whether cause() is a root cause, not a consequence of another rank's error.
  bool is_explained() const { return cause_ && cause_->weight != Cause::Weight::kConsequence; }

 private:
  std::optional<Cause> cause_;
};

}  // namespace trireme::comm
