// Measured chains in files, found again by what they depend on.
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

/// What ranks that are as fast as one another have in common, in a line: processor, threads, and a
/// device that is not the processor.
std::string machine(int threads, const device::Place& place = device::cpu());

/// Everything that costs depend on that were measured on such a machine(), as text: model with the
/// files of its layers, micro-batch size, precision, optimizer, whether gradients are clipped, the
/// machine, LibTorch, and the program itself (its digest: layers of its own may have changed).
std::string dependencies(const config::JobSpec& job, const std::string& machine);

/// A chain of measured costs with its place.
struct Stored {
  chain::Chain chain;
  std::vector<std::string> notes =
      {};  ///< what MeasureOptions::note was told, also where was_there
  std::filesystem::path file = {};
  bool was_there = false;    ///< nothing was measured
  std::string problem = {};  ///< why it could not be stored: there is no file then
  std::string refused = {};  ///< as in Found: what it was measured in place of
};

/// What there is in a folder.
struct Found {
  std::optional<Stored> stored;
  /// Why what has the file's name is not taken, with that name; empty where there is none.
  std::string refused;
};

/// What is stored in `folder` for these dependencies(), of this model, byte by byte as it was
/// written: what else has that name is refused, and is replaced by what store() writes.
Found find_stored(const std::string& dependencies, const model::ChainModel& model,
                  const std::filesystem::path& folder);
/// Stores a chain that was measured under these dependencies(), with what was noted of its layers.
Stored store(chain::Chain chain, const std::vector<std::string>& notes,
             const std::string& dependencies, const std::filesystem::path& folder);

enum class Reuse { kAllowed, kForbidden };

/// The chain stored in `folder` for these dependencies; where there is none, as find_stored() says,
/// or with kForbidden, measures it and stores it there. Where it cannot be stored it says why.
/// Notes of a chain that was stored are told again.
Stored load_or_measure(const model::ChainModel& model, const config::JobSpec& job,
                       const MeasureOptions& options, const std::filesystem::path& folder,
                       Reuse reuse);

}  // namespace trireme::profile
