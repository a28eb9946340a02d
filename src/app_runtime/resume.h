// Which checkpoint a run goes on from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.h"

#include "trireme/config/job.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace trireme::app {

/// A checkpoint, how many steps it has behind it, the size of their micro-batches, and how many
/// replicas the newest of them had.
struct Resumption {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  int micro_batch = 1;
  int replicas = 0;  ///< 0: not known
};

/// Of a run's folder.
std::filesystem::path checkpoints_folder(const std::filesystem::path& run);

/// Every rank; rank 0 looks. The job was read with `options`, and so is that of the checkpoint.
/// `data` is content_digest(). With `checkpoint.resume`:
/// - never: none.
/// - auto: the newest one of the run folder, where the run in it has not completed
///   (record::completed_steps). Throws InputError if it is of a job with other numbers: another
///   model, data or training; a size of micro-batches that is open differs from none.
/// - must: the newest one. What is different is told on `out`. Throws InputError if there is none.
///
/// Throws InputError where no step is left to train, unless only the summary is missing, and where
/// the checkpoint is damaged.
std::optional<Resumption> resumption_of(const config::JobSpec& job,
                                        const config::LoadOptions& options, const std::string& data,
                                        const RankContext& context, std::ostream& out);

/// The job with micro-batches as the checkpoint's steps had them, where it leaves their size open.
/// Throws InputError where its batch and replicas do not go with that size.
config::JobSpec with_saved_size(const config::JobSpec& job, const Resumption& from);

/// Says on `out` where a job without an open shape has other replicas than the checkpoint.
void note_replicas(const config::JobSpec& job, const Resumption& from, std::ostream& out);

}  // namespace trireme::app
