// SPDX-License-Identifier: Apache-2.0
#include "saved/saved_state.h"

#include "saved/checkpoint_reader.h"
#include "saved/step_history.h"
#include "state/tensor_bytes.h"
#include "state/tensor_types.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/checkpoint/store.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/DeviceType.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

namespace trireme::runtime {
namespace {

constexpr const char *kFirst = "first_moments/", *kSecond = "second_moments/";

using Clock = std::chrono::steady_clock;

}  // namespace

/// Writes this rank's files: frozen ones at once, the others at once or to `later`.
class SavedState::Writer {
 public:
  Writer(SavedState& saved, std::filesystem::path folder, checkpoint::TensorSink* later)
      : saved_(saved),
        folder_(std::move(folder)),
        later_(later),
        files_(saved.mine()),
        state_(saved.parts_.optimizer) {}

  /// Writes at most one tensor; returns whether there is more.
  bool write_piece();
  /// Where the tensors are, as far as that is known by now.
  const checkpoint::Manifest& written() const { return written_; }

 private:
  void require_folder() const;
  void open(const RankFile& file);
  void append(const Named& tensor);
  void close(const RankFile& file);
  void next_file(const checkpoint::Manifest& tensors);

  SavedState& saved_;
  const std::filesystem::path folder_;
  checkpoint::TensorSink* const later_;
  const std::vector<RankFile> files_;
  Optimizer::Access state_;
  checkpoint::TensorFiles at_once_;
  checkpoint::TensorSink* sink_ = nullptr;  ///< receives the file that is open
  std::size_t of_file_ = 0, next_ = 0;      ///< index of the file, and of its next tensor
  checkpoint::Manifest written_;
};

SavedState::~SavedState() {
  later_.give_up();
  if (unfinished_ && parts_.channel.rank() == 0)
    checkpoint::Store(into_.folder).discard(unfinished_->step);
}

void SavedState::begin_save(std::int64_t step, Writing writing) {
  ensure(!is_saving(), "one checkpoint at a time");
  unfinished_ = {
      .step = step, .begin = Clock::now(), .is_beside = writing == Writing::kBesideSteps};
  const checkpoint::Store store(into_.folder);
  or_discard([&] {
    on_rank_0([&] { store.begin(step); }, "begin of a checkpoint");
    unfinished_->tensors = write(store.draft(step), unfinished_->is_beside ? &later_ : nullptr);
    if (unfinished_->is_beside) later_.start();
  });
  unfinished_->held = to_seconds(Clock::now() - unfinished_->begin);
}

bool SavedState::is_written() const {
  const bool is_writing = unfinished_->is_beside && !later_.is_done();
  return !comm::any_of(parts_.channel, is_writing, "progress of a checkpoint");
}

SavedCheckpoint SavedState::finish_save(const std::function<void()>& settle) {
  Unfinished& mine = unfinished_.value();
  const checkpoint::Store store(into_.folder);
  SavedCheckpoint saved{.step = mine.step, .folder = store.place(mine.step), .size = {}};
  const auto begin = Clock::now();
  or_discard([&] {
    const auto await = [&] {
      if (!mine.is_beside) return;
      or_diverged([&] { checkpoint::merge(mine.tensors, later_.finish()); });
    };
    comm::run_with_heartbeat(parts_.channel, await, "writing of a checkpoint");
    checkpoint::Manifest manifest = gather(mine.tensors);
    manifest.step = mine.step;
    manifest.data = into_.data;
    manifest.threads = at::get_num_threads();
    manifest.device = c10::DeviceTypeName(parts_.stage.device().type(), /*lower_case=*/true);
    manifest.vectors = at::get_cpu_capability();
    for (const auto& [name, entry] : manifest.tensors) saved.size += entry.size;
    on_rank_0(
        [&] {
          settle();
          store.publish(manifest, into_.job);
          store.keep(into_.keep, mine.step);
        },
        "end of a checkpoint");
    frozen_.folder = saved.folder;
  });
  const auto end = Clock::now();
  saved.held = mine.held + to_seconds(end - begin);
  saved.time = mine.is_beside ? to_seconds(end - mine.begin) : saved.held;
  unfinished_.reset();
  return saved;
}

void SavedState::or_diverged(const std::function<void()>& work) const {
  try {
    work();
  } catch (const checkpoint::NoNumberError& error) {
    refuse_to_go_on(lost_value(error.tensor, unfinished_->step, error.found.text()));
  }
}

std::string SavedState::lost_buffer(std::int64_t step) {
  const auto [name, found] = built_.first_lost(parts_.stage);
  return name.empty() ? "" : lost_value(concat(kBuffers, name), step, found);
}

void SavedState::or_discard(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (parts_.channel.rank() == 0) checkpoint::Store(into_.folder).discard(unfinished_->step);
    unfinished_.reset();
    throw;
  }
}

void SavedState::on_rank_0(const std::function<void()>& work, std::string_view what) const {
  const auto mine = [&] {
    if (parts_.channel.rank() == 0) work();
  };
  comm::run_with_heartbeat(parts_.channel, mine, what);
}

checkpoint::Manifest SavedState::gather(const checkpoint::Manifest& part) const {
  checkpoint::Manifest all;
  for (const std::string& text :
       comm::all_gather(parts_.channel, comm::everyone(parts_.channel), checkpoint::to_json(part),
                        "tensors of a checkpoint"))
    checkpoint::merge(all, checkpoint::read_manifest(io::parse(text, "a rank's tensors")));
  return all;
}

checkpoint::Manifest SavedState::write(const std::filesystem::path& folder,
                                       checkpoint::BackgroundFiles* later) {
  Writer writer(*this, folder, later);
  comm::run_pieces_with_heartbeat(
      parts_.channel,
      [&] {
        bool has_more = false;
        or_diverged([&] { has_more = writer.write_piece(); });
        return has_more;
      },
      "writing of a checkpoint");
  checkpoint::Manifest manifest = writer.written();
  for (const StageParameter& parameter : parts_.stage.parameters())
    if (!parameter.tie.empty() && parts_.reducer.is_first_use(parameter))
      manifest.ties[parameter.tie] = parameter.name;
  return manifest;
}

bool SavedState::Writer::write_piece() {
  if (of_file_ == files_.size()) return false;
  const RankFile& file = files_[of_file_];
  if (sink_ == nullptr) {
    require_folder();
    if (file.is_frozen && saved_.link_frozen(folder_ / file.name)) {
      next_file(saved_.frozen_.tensors);
      return of_file_ < files_.size();
    }
    open(file);
  }
  if (next_ < file.tensors.size()) {
    append(file.tensors[next_++]);
  } else {
    close(file);
  }
  return of_file_ < files_.size();
}

void SavedState::Writer::require_folder() const {
  std::error_code failure;
  if (std::filesystem::exists(folder_, failure)) return;
  throw InputError(concat(folder_.string(), ": was made by rank 0 and is not here on rank ",
                          saved_.parts_.channel.rank(),
                          ": report.directory must be on a file system that all ranks share"));
}

void SavedState::Writer::open(const RankFile& file) {
  std::vector<checkpoint::Spec> specs;
  for (const Named& tensor : file.tensors) specs.push_back(saved_.spec_of(tensor));
  sink_ = &at_once_;
  if (later_ != nullptr && !file.is_frozen) sink_ = later_;
  sink_->begin_file(folder_ / file.name, std::move(specs));
}

void SavedState::Writer::append(const Named& tensor) {
  const at::Tensor value =
      tensor.value.defined() ? tensor.value : state_.read(tensor.parameter, tensor.which);
  const at::Tensor bytes = value.detach().cpu().contiguous();
  sink_->append(bytes_of(bytes));
}

void SavedState::Writer::close(const RankFile& file) {
  const checkpoint::Manifest tensors = sink_->end_file();
  if (file.is_frozen) saved_.frozen_ = {.folder = {}, .tensors = tensors};
  next_file(tensors);
}

void SavedState::Writer::next_file(const checkpoint::Manifest& tensors) {
  checkpoint::merge(written_, tensors);
  sink_ = nullptr;
  next_ = 0;
  ++of_file_;
}

bool SavedState::link_frozen(const std::filesystem::path& file) const {
  if (frozen_.folder.empty()) return false;
  std::error_code failure;
  std::filesystem::create_hard_link(frozen_.folder / file.filename(), file, failure);
  if (failure) return false;
  const Bytes end = checkpoint::file_ends(frozen_.tensors).at(file.filename().string());
  if (std::cmp_equal(std::filesystem::file_size(file, failure), end.count())) return true;
  io::remove_own_file(file);
  return false;
}

void SavedState::name_parts(std::size_t parameter, const std::string& name,
                            std::vector<Named>& tensors) const {
  using StateTensor = Optimizer::StateTensor;
  const Optimizer::Access state(parts_.optimizer);
  for (const auto& [which, prefix] : {std::pair{StateTensor::kValue, kParameters},
                                      {StateTensor::kFirst, std::string_view(kFirst)},
                                      {StateTensor::kSecond, std::string_view(kSecond)}}) {
    if (!state.has(parameter, which)) continue;
    tensors.push_back(
        {.name = concat(prefix, name), .value = {}, .parameter = parameter, .which = which});
  }
}

std::vector<SavedState::Named> SavedState::saved_here(std::size_t parameter) const {
  const StageParameter& one = parts_.stage.parameters()[parameter];
  std::vector<Named> all, mine;
  if (!parts_.reducer.is_first_use(one)) return mine;
  name_parts(parameter, one.name, all);
  const Optimizer::Access state(parts_.optimizer);
  const bool is_divided = parts_.reducer.shards().is_divided(parameter);
  const bool has_master = one.weight.scalar_type() != at::kFloat;
  for (Named& tensor : all) {
    const Row row = state.row(parameter, tensor.which);
    if (row.count < one.weight.numel()) tensor.row = row;
    const bool is_state = tensor.which != Optimizer::StateTensor::kValue || has_master;
    if (is_divided && is_state ? row.count > 0 : parts_.position.replica == 0)
      mine.push_back(std::move(tensor));
  }
  return mine;
}

bool SavedState::is_frozen(const Named& tensor) const {
  return !tensor.value.defined() && !parts_.stage.parameters().at(tensor.parameter).is_trained;
}

checkpoint::Spec SavedState::spec_of(const Named& tensor) const {
  const auto spec = [&](const at::Tensor& shape, at::ScalarType type) {
    return checkpoint::Spec{
        .name = tensor.name,
        .type = type_name(type),
        .sizes = shape.sizes().vec(),
        .size = Bytes(shape.numel() * static_cast<std::int64_t>(c10::elementSize(type))),
        .is_constant = tensor.is_constant || is_frozen(tensor)};
  };
  if (tensor.value.defined()) return spec(tensor.value, tensor.value.scalar_type());
  // Moments and masters are float32; a tensor without a master has the type of its weight.
  const StageParameter& parameter = parts_.stage.parameters().at(tensor.parameter);
  const bool is_state = tensor.which != Optimizer::StateTensor::kValue || parameter.is_trained;
  checkpoint::Spec whole =
      spec(parameter.weight, is_state ? at::kFloat : parameter.weight.scalar_type());
  if (!tensor.row) return whole;
  return {.name = concat(whole.name, '[', tensor.row->begin, ':', tensor.row->end(), ']'),
          .type = whole.type,
          .sizes = {tensor.row->count},
          .size = Bytes(tensor.row->count * std::int64_t{sizeof(float)}),
          .part_of = checkpoint::PartOf{whole.name, whole.sizes, tensor.row->begin}};
}

std::vector<SavedState::RankFile> SavedState::mine() const {
  std::vector<Named> tensors;
  const int replica = parts_.position.replica;
  for (std::size_t i = 0; i < parts_.stage.parameters().size(); ++i) {
    std::vector<Named> of_parameter = saved_here(i);
    std::move(of_parameter.begin(), of_parameter.end(), std::back_inserter(tensors));
  }
  for (const int number : parts_.stage.layers()) {
    for (const model::Buffer& buffer : parts_.stage.layer(number).buffers()) {
      if (!buffer.is_saved) continue;
      tensors.push_back(
          {.name = of_replica(replica,
                              concat(kBuffers, parts_.stage.layer_name(number), '/', buffer.name)),
           .value = buffer.value,
           .is_constant = built_.is_constant(number, buffer)});
    }
  }
  if (parts_.channel.rank() == 0) {
    tensors.push_back({.name = kLosses, .value = view_of(parts_.losses.history().losses)});
    tensors.push_back({.name = kMeans, .value = view_of(parts_.losses.history().means)});
  }
  const auto first_frozen = std::stable_partition(
      tensors.begin(), tensors.end(), [&](const Named& one) { return !is_frozen(one); });
  const std::string name = concat("rank-", parts_.channel.rank());
  std::vector<RankFile> files;
  if (first_frozen != tensors.begin())
    files.push_back({.name = name + ".safetensors",
                     .tensors = {tensors.begin(), first_frozen},
                     .is_frozen = false});
  if (first_frozen != tensors.end())
    files.push_back({.name = concat(name, checkpoint::kFrozenEnding),
                     .tensors = {first_frozen, tensors.end()},
                     .is_frozen = true});
  return files;
}

}  // namespace trireme::runtime
