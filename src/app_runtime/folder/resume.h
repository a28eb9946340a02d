// Finds the checkpoint that a run resumes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/ranks/rank_context.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace trireme::app {

/// A checkpoint, the number of steps done, their micro-batch size, and the number of replicas of
/// the newest of them.
struct Resumption {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  int micro_batch = 1;
  int replicas = 0;  ///< 0: not known
};

/// Collective; rank 0 looks. The job was read with `options`, and so is that of the checkpoint.
/// `data` is content_digest(). With `checkpoint.resume`:
/// - never: none.
/// - auto: the newest one of the run folder, if the run in it has not completed
///   (record::completed_steps). Throws InputError if its job has other numbers: another model, data
///   or training; an open micro-batch size matches any.
/// - must: the newest one. Differences are printed to `out`. Throws InputError if there is none.
///
/// Throws InputError where no step is left to train, unless only the summary is missing, and where
/// the checkpoint is damaged.
std::optional<Resumption> resumption_of(const config::JobSpec& job,
                                        const config::LoadOptions& options, const std::string& data,
                                        const ranks::RankContext& context, std::ostream& out);

/// The job with the micro-batch size of the checkpoint's steps, where it leaves that size open.
/// Throws InputError where its batch and replicas do not fit that size.
config::JobSpec with_saved_size(const config::JobSpec& job, const Resumption& from);

/// Prints a note to `out` where a job of settled shape has other replicas than the checkpoint.
void note_replicas(const config::JobSpec& job, const Resumption& from, std::ostream& out);

}  // namespace trireme::app
