// Cache of measured chains in files, keyed by everything that the costs depend on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/profile/measure.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::profile {

/// A line that is equal for ranks of equal speed: processor, threads, and the device if it is not
/// the processor.
std::string machine(int threads, const device::Place& place = device::cpu());

/// Cache key, as text: everything that costs measured on such a machine() depend on: the job's
/// model and `code` (that of the ChainModel), micro-batch size, precision, optimizer, whether
/// gradients are clipped, the machine, LibTorch, and the program itself (the digest of the file
/// that holds this code, since its layers may have changed); and whether joules were measured, too.
enum class Energy { kNotMeasured, kMeasured };
std::string dependencies(const config::JobSpec& job, const std::string& code,
                         const std::string& machine, Energy energy = Energy::kNotMeasured);

/// A chain of measured costs and its file.
struct Stored {
  chain::Chain chain;
  std::vector<std::string> notes = {};  ///< remarks of MeasureOptions::note, kept in the file
  std::filesystem::path file = {};
  bool was_there = false;    ///< found in the cache: nothing was measured
  std::string problem = {};  ///< why it could not be stored; then there is no file
  std::string refused = {};  ///< as in Found: the file that was refused and measured again
};

/// Result of a look-up in a folder.
struct Found {
  std::optional<Stored> stored;
  /// Why a file of the expected name is not used, with its name; empty if there is no such file.
  std::string refused;
};

/// The chain stored in `folder` for these dependencies() and this model, if its file is unchanged
/// byte by byte: any other file of that name is refused, and replaced by the next store().
Found find_stored(const std::string& dependencies, const model::ChainModel& model,
                  const std::filesystem::path& folder);
/// The chain stored for the job on such a machine(): one with joules, or else one without.
Found find_stored(const config::JobSpec& job, const std::string& machine,
                  const model::ChainModel& model, const std::filesystem::path& folder);
/// Stores a chain measured under these dependencies(), with the remarks on its layers.
Stored store(chain::Chain chain, const std::vector<std::string>& notes,
             const std::string& dependencies, const std::filesystem::path& folder);

enum class Reuse { kAllowed, kForbidden };

/// The chain stored in `folder` for the job, with joules if `options` have a meter; if there is
/// none (see find_stored()), or with kForbidden, measures and stores it. If it cannot be stored,
/// `problem` says why. Remarks stored with a chain are passed to `note` again.
Stored load_or_measure(const model::ChainModel& model, const config::JobSpec& job,
                       const MeasureOptions& options, const std::filesystem::path& folder,
                       Reuse reuse);

}  // namespace trireme::profile
