// A run's checkpointed state: saved by all ranks together, restored in any split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "saved/loss_log.h"
#include "state/built_buffers.h"
#include "state/stage.h"
#include "update/optimizer.h"
#include "update/reducer.h"

#include "trireme/checkpoint/background_files.h"
#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/comm/channel.h"
#include "trireme/core/text.h"
#include "trireme/runtime/checkpointing.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::runtime {

/// Names of the tensors with the losses of all micro-batches, and of all steps.
inline constexpr const char *kLosses = "losses", *kMeans = "step_losses";
/// A buffer's name in a checkpoint, from its name for the first replica.
inline std::string of_replica(int replica, const std::string& name) {
  return replica == 0 ? name : concat("replica ", replica, '/', name);
}

/// Parameters and moments under their names in the chain, a tied weight once; buffers (batch-norm
/// statistics) of every replica; all losses. Everything else of a run follows from its job and the
/// number of steps done.
class SavedState {
 public:
  struct Parts {
    comm::Channel& channel;
    const Position& position;
    Stage& stage;
    Optimizer& optimizer;
    Reducer& reducer;
    LossLog& losses;
  };
  /// `parts.stage` has just been built.
  SavedState(const Parts& parts, const Checkpointing& into)
      : parts_(parts), into_(into), built_(parts.stage) {}
  /// Removes a checkpoint that was begun and not finished.
  ~SavedState();
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  enum class Writing { kAtOnce, kBesideSteps };
  /// Collective, after `step` steps, while no other checkpoint is unfinished: writes this rank's
  /// part of a checkpoint, or copies it, to be written in the background. All losses must have been
  /// exchanged. Throws on every rank what failed on one, and if a value is not finite; earlier
  /// checkpoints are untouched then.
  void begin_save(std::int64_t step, Writing writing);
  /// The same on every rank.
  bool is_saving() const { return unfinished_.has_value(); }
  /// Collective: whether all ranks have written their parts.
  bool is_written() const;
  /// Collective: waits for that, calls `settle` on rank 0, publishes the checkpoint and removes old
  /// ones. Throws as begin_save() does.
  SavedCheckpoint finish_save(const std::function<void()>& settle);
  /// lost_value() of a buffer of this rank after `step` steps; empty if there is none.
  std::string lost_buffer(std::int64_t step);

  /// What was restored.
  struct Restored {
    std::int64_t steps = 0;
    std::set<std::string> as_begun;  ///< tensors, of all ranks, that came from `model.weights`
  };
  /// Collective, before the first step: restores a checkpoint, whatever ranks wrote it. Frozen
  /// weights that are damaged are read again from the job's `model.weights`. Throws InputError on
  /// every rank when something else is damaged, or something is missing, of other sizes, or left
  /// over.
  Restored restore(const std::filesystem::path& checkpoint, const config::JobSpec& job);

 private:
  /// A tensor under its name in a checkpoint.
  struct Named {
    std::string name;
    at::Tensor value;          ///< the tensor if it is not a parameter's
    bool is_constant = false;  ///< for a buffer, as in checkpoint::Spec
    std::size_t parameter = 0;
    Optimizer::StateTensor which{};
    std::optional<Row> row = std::nullopt;  ///< its row, where it is not all of the parameter
  };
  /// Value and moments of a parameter under its name.
  void name_parts(std::size_t parameter, const std::string& name,
                  std::vector<Named>& tensors) const;
  /// Those that this rank saves: its row of tensors that replicas divide; the first replica saves
  /// all else.
  std::vector<Named> saved_here(std::size_t parameter) const;
  checkpoint::Spec spec_of(const Named& tensor) const;
  /// A file that this rank writes.
  struct RankFile {
    std::string name;
    std::vector<Named> tensors;
    bool is_frozen = false;  ///< no step changes its tensors
  };
  /// The files that this rank saves.
  std::vector<RankFile> mine() const;
  /// The tensors that this rank restores from a checkpoint.
  std::vector<Named> wanted(const checkpoint::Manifest& manifest) const;
  bool is_frozen(const Named& tensor) const;
  class Writer;
  /// Collective: writes this rank's files and returns their tensors; files that steps change go to
  /// `later` if that is given.
  checkpoint::Manifest write(const std::filesystem::path& folder,
                             checkpoint::BackgroundFiles* later);
  /// Turns the error of a value that is not finite into that of a run that has diverged.
  void or_diverged(const std::function<void()>& work) const;
  /// Collective. Discards the checkpoint if `work` throws.
  void or_discard(const std::function<void()>& work);
  /// Links the file of the checkpoint before this one here; false if that fails or it is
  /// incomplete.
  bool link_frozen(const std::filesystem::path& file) const;
  /// The manifest of all ranks' parts. Collective.
  checkpoint::Manifest gather(const checkpoint::Manifest& part) const;
  /// Collective: runs `work` on rank 0. Throws on every rank what it throws.
  void on_rank_0(const std::function<void()>& work, std::string_view what) const;

  /// Frozen tensors, which are written once, for all checkpoints.
  struct Frozen {
    std::filesystem::path folder;  ///< folder of the newest checkpoint that has it
    checkpoint::Manifest tensors;
  };

  /// A checkpoint between begin_save() and finish_save().
  struct Unfinished {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point begin;
    Seconds held{0};
    checkpoint::Manifest tensors;  ///< that this rank has written
    bool is_beside = false;        ///< the other files are written in the background
  };

  Parts parts_;
  const Checkpointing& into_;
  BuiltBuffers built_;
  Frozen frozen_;
  checkpoint::BackgroundFiles later_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace trireme::runtime
