// What of a run outlives it: saved by all ranks together, taken up again in any split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "built_buffers.h"
#include "loss_log.h"

#include "trireme/checkpoint/background_files.h"
#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/comm/channel.h"
#include "trireme/core/text.h"
#include "trireme/runtime/optimizer.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"
#include "trireme/runtime/trainer.h"

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

/// Names of tensors with all losses of micro-batches, and of steps.
inline constexpr const char *kLosses = "losses", *kMeans = "step_losses";
/// A buffer's name in a checkpoint, by that of the first replica's.
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
  /// Of a stage that has just been built.
  SavedState(const Parts& parts, const Checkpointing& into)
      : parts_(parts), into_(into), built_(parts.stage) {}
  /// A checkpoint that was begun and not finished is removed.
  ~SavedState();
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  enum class Writing { kAtOnce, kBesideSteps };
  /// Every rank, after `step` steps, while no other checkpoint is unfinished: writes what this rank
  /// has of one, or takes a copy of it, which is then written beside what follows. All losses must
  /// have been exchanged. Throws on every rank what failed on one, and where a value is no number;
  /// earlier checkpoints are untouched then.
  void begin_save(std::int64_t step, Writing writing);
  /// The same on every rank.
  bool is_saving() const { return unfinished_.has_value(); }
  /// Every rank: whether all of them have written what they have of it.
  bool is_written() const;
  /// Every rank: waits for that, calls `settle` on rank 0, makes the checkpoint appear and removes
  /// old ones. Throws as begin_save() does.
  SavedCheckpoint finish_save(const std::function<void()>& settle);
  /// lost_value() of a buffer of this rank after `step` steps; empty where there is none.
  std::string lost_buffer(std::int64_t step);

  /// What was taken up.
  struct Restored {
    std::int64_t steps = 0;
    std::set<std::string> as_begun;  ///< tensors, of all ranks, that came from `model.weights`
  };
  /// Every rank, before the first step: takes the state of a checkpoint up, whatever ranks wrote
  /// it. Frozen weights that are damaged are read again from the job's `model.weights`. Throws
  /// InputError on every rank when something else is damaged, or something is missing, of other
  /// sizes, or left over.
  Restored restore(const std::filesystem::path& checkpoint, const config::JobSpec& job);

 private:
  /// A tensor under its name in a checkpoint.
  struct Named {
    std::string name;
    at::Tensor value;          ///< of what is no parameter's
    bool is_constant = false;  ///< of a buffer, as in checkpoint::Spec
    std::size_t parameter = 0;
    Optimizer::Part part{};
    std::optional<Row> row = std::nullopt;  ///< of a parameter's numbers, where they are not all
  };
  /// Value and moments of a parameter under its name.
  void name_parts(std::size_t parameter, const std::string& name,
                  std::vector<Named>& tensors) const;
  /// Those that this rank saves: of what replicas divide, each its row; the first one all else.
  std::vector<Named> saved_here(std::size_t parameter) const;
  checkpoint::Spec spec_of(const Named& tensor) const;
  /// A file of this rank.
  struct RankFile {
    std::string name;
    std::vector<Named> tensors;
    bool is_frozen = false;  ///< no step changes what is in it
  };
  /// What this rank saves.
  std::vector<RankFile> mine() const;
  /// What this rank takes up from a checkpoint.
  std::vector<Named> wanted(const checkpoint::Manifest& manifest) const;
  bool is_frozen(const Named& tensor) const;
  class Writer;
  /// Every rank: writes its files, and says what is in them; those that steps change go to `later`
  /// where there is one.
  checkpoint::Manifest write(const std::filesystem::path& folder,
                             checkpoint::BackgroundFiles* later);
  /// Makes of a value that is no number the error of a run that has diverged.
  void or_diverged(const std::function<void()>& work) const;
  /// Every rank. What `work` throws ends the checkpoint.
  void or_discard(const std::function<void()>& work);
  /// Gives the file of the checkpoint before this one a name here, too; false where that cannot be
  /// or it is not whole.
  bool link_frozen(const std::filesystem::path& file) const;
  /// Of all ranks.
  checkpoint::Manifest gather(const checkpoint::Manifest& part) const;
  /// Every rank: while rank 0 works. Throws on every rank what is thrown there.
  void on_rank_0(const std::function<void()>& work, std::string_view what) const;

  /// What is frozen, as it was written: once, for all checkpoints.
  struct Frozen {
    std::filesystem::path folder;  ///< of the newest checkpoint that has it
    checkpoint::Manifest tensors;
  };

  /// A checkpoint between begin_save() and finish_save().
  struct Unfinished {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point begin;
    Seconds held{0};
    checkpoint::Manifest tensors;  ///< that this rank has written
    bool is_beside = false;        ///< others are written beside steps
  };

  Parts parts_;
  const Checkpointing& into_;
  BuiltBuffers built_;
  Frozen frozen_;
  checkpoint::BackgroundFiles later_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace trireme::runtime
