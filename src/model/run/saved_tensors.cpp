// SPDX-License-Identifier: Apache-2.0
#include "run/saved_tensors.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/foreign.h"
#include "trireme/model/given.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace trireme::model {
namespace {

using torch::autograd::SavedVariableHooks;

// Set by scopes for their thread.
thread_local SavingScope* current = nullptr;             // NOLINT
thread_local RemakingScope* current_remaking = nullptr;  // NOLINT

/// The engine that was there before, but for hooks of saved tensors: its own go first, those of the
/// thread's scope come after. Python's engine has some (torch.autograd.graph.saved_tensors_hooks),
/// and runs what Python adds to a graph.
class AskingEngine final : public torch::autograd::Engine {
 public:
  explicit AskingEngine(Engine& before) : before_(before) {}
  ~AskingEngine() override { stop(); }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return before_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return before_.make_anomaly_metadata();
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (auto hooks = before_.get_default_saved_variable_hooks()) return hooks;
    return current == nullptr ? nullptr : current->hooks();
  }

 private:
  Engine& before_;
};

AskingEngine* engine = nullptr;  // NOLINT: never freed, graphs may outlive static destruction

void install() {
  static const bool installed = [] {
    engine = new AskingEngine(torch::autograd::Engine::get_default_engine());
    torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return *engine; });
    return true;
  }();
  (void)installed;
}

/// Text around a tensor changed in place, in autograd's errors and ours.
constexpr std::string_view kSign = "has been modified by an inplace operation: ",
                           kEnd = " is at version ";

/// `what` describes the value, in brackets.
std::string change_of(const std::string& what) {
  return concat(
      "forward needs a value", what,
      " for its backward and changes it in place afterwards, so that gradients would be wrong: "
      "write the result to a new tensor (y = y * 2 instead of y *= 2 or y.mul_(2)), or change a "
      "copy, made with .clone(); what a buffer is to remember must not be used for the output");
}

std::uint32_t version_of(const at::Tensor& tensor) {
  return torch::autograd::impl::version_counter(tensor).current_version();
}

class NotingHooks final : public SavedVariableHooks {
 public:
  explicit NotingHooks(NotingScope& into) : into_(into) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    saved_.set(tensor);
    if (tensor.has_storage()) into_.note(tensor.storage());
  }
  at::Tensor call_unpack_hook() override { return saved_.get(); }

 private:
  NotingScope& into_;
  SavedTensor saved_;
};

/// Unpacks the tensor that was put into its place later.
class PlaceHooks final : public SavedVariableHooks {
 public:
  explicit PlaceHooks(OutlineScope& scope) : scope_(scope) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    place_ = scope_.new_place();
    place_->note(tensor);
  }
  at::Tensor call_unpack_hook() override { return place_->get(); }

 private:
  OutlineScope& scope_;  ///< used only while it lives
  std::shared_ptr<SavedTensor> place_;
};

/// The same, and tells the scope what was saved.
class TracingHooks final : public SavedVariableHooks {
 public:
  explicit TracingHooks(TracingScope& into) : into_(into) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    place_->set(tensor);
    into_.add({place_, tensor.detach()});
  }
  at::Tensor call_unpack_hook() override { return place_->get(); }

 private:
  TracingScope& into_;  ///< used only while it lives
  std::shared_ptr<SavedTensor> place_ = std::make_shared<SavedTensor>();
};

class FillingHooks final : public SavedVariableHooks {
 public:
  explicit FillingHooks(FillingScope& into) : into_(into) {}
  void call_pack_hook(const at::Tensor& tensor) override { into_.fill(tensor); }
  at::Tensor call_unpack_hook() override {
    TORCH_CHECK(false, "the graph of a forward that was run again has no tensors");
  }

 private:
  FillingScope& into_;
};

/// A tensor saved through a scope's hooks, or as autograd does if there are none.
class Kept {
 public:
  Kept(std::unique_ptr<SavedVariableHooks> hooks, const at::Tensor& tensor)
      : hooks_(std::move(hooks)) {
    hooks_ ? hooks_->call_pack_hook(tensor) : saved_.set(tensor);
  }
  at::Tensor get() const { return hooks_ ? hooks_->call_unpack_hook() : saved_.get(); }

 private:
  std::unique_ptr<SavedVariableHooks> hooks_;
  SavedTensor saved_;
};

class RemakingHooks final : public SavedVariableHooks {
 public:
  explicit RemakingHooks(const RemakingScope& scope) : scope_(scope) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    const RemakingScope::StandIn* stand_in = scope_.find(tensor);
    if (stand_in == nullptr) {
      kept_.emplace_back(scope_.enclosing_hooks(), tensor);
      return;
    }
    for (const at::Tensor& source : stand_in->sources)
      kept_.emplace_back(scope_.enclosing_hooks(), source);
    make_ = stand_in->make;
    sizes_ = tensor.sizes().vec();
    strides_ = tensor.strides().vec();
    offset_ = tensor.storage_offset();
  }

  at::Tensor call_unpack_hook() override {
    if (!make_) return kept_.front().get();
    const at::NoGradGuard no_grad;
    Values sources;
    for (const Kept& source : kept_) sources.push_back(source.get());
    return make_(sources).as_strided(sizes_, strides_, offset_);
  }

 private:
  const RemakingScope& scope_;  ///< used only while it lives
  std::vector<Kept> kept_;
  RemakingScope::Make make_;
  std::vector<std::int64_t> sizes_, strides_;  ///< of the view of the value that was saved
  std::int64_t offset_ = 0;
};

void require_as_saved(const std::shared_ptr<SavedTensor>& place) {
  const bool is_asked_for = place.use_count() > 1;  // otherwise its graph was freed
  if (is_asked_for && place->is_changed()) throw InputError(change_of(""));
}

}  // namespace

void SavedTensor::set(const at::Tensor& tensor) {
  tensor_ = tensor.detach();  // otherwise a graph would hold its own output, and thus itself
  note(tensor_);
}

void SavedTensor::note(const at::Tensor& tensor) {
  counter_ = torch::autograd::impl::version_counter(tensor);
  version_ = counter_.current_version();
}

bool SavedTensor::is_changed() const {
  return counter_.current_version() != version_;
}

const at::Tensor& SavedTensor::get() const {
  TORCH_CHECK(tensor_.defined(), "a tensor that a backward needs was never made again");
  TORCH_CHECK(!is_changed(), "a tensor that a backward needs ", kSign, '[', types_text({tensor_}),
              "]", kEnd, counter_.current_version(), "; expected version ", version_);
  return tensor_;
}

std::string told_change(const std::string& words) {
  const std::size_t sign = words.find(kSign), end = words.find(kEnd);
  if (sign == std::string::npos || end == std::string::npos) return {};
  // "[CPUFloatType [2, 16]], which is output 0 of ExpBackward0,"
  const std::size_t begin = sign + kSign.size();
  std::string what = words.substr(begin, end - begin);
  if (what.ends_with(',')) what.pop_back();
  return change_of(concat(" (", what, ")"));
}

SavingScope::SavingScope() : enclosing_(current) {
  install();
  current = this;
}

SavingScope::~SavingScope() {
  current = enclosing_;
}

std::unique_ptr<SavedVariableHooks> SavingScope::enclosing_hooks() const {
  return enclosing_ == nullptr ? nullptr : enclosing_->hooks();
}

RemakingScope::RemakingScope() : enclosing_remaking_(std::exchange(current_remaking, this)) {}

RemakingScope::~RemakingScope() {
  current_remaking = enclosing_remaking_;
}

std::unique_ptr<SavedVariableHooks> RemakingScope::hooks() {
  return std::make_unique<RemakingHooks>(*this);
}

void RemakingScope::stand_in(const at::Tensor& value, Values sources, Make make) {
  if (current_remaking == nullptr) return;
  StandIn made{value.storage().getWeakStorageImpl(), {}, std::move(make), {version_of(value)}};
  for (const at::Tensor& source : sources) {
    if (source.storage().is_alias_of(value.storage())) return;
    made.sources.push_back(source.detach());
    made.versions.push_back(version_of(source));
  }
  current_remaking->stand_ins_.push_back(std::move(made));
}

const RemakingScope::StandIn* RemakingScope::find(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return nullptr;
  const auto is_of = [&](const StandIn& stand_in) {
    return stand_in.value._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl();
  };
  const auto found = std::find_if(stand_ins_.begin(), stand_ins_.end(), is_of);
  if (found == stand_ins_.end()) return nullptr;
  std::vector<std::uint32_t> now{version_of(tensor)};
  for (const at::Tensor& source : found->sources) now.push_back(version_of(source));
  return now == found->versions ? &*found : nullptr;
}

std::unique_ptr<SavedVariableHooks> NotingScope::hooks() {
  return std::make_unique<NotingHooks>(*this);
}

void NotingScope::note(const c10::Storage& storage) {
  const auto is_same = [&](const c10::Storage& known) { return known.is_alias_of(storage); };
  if (std::none_of(storages_.begin(), storages_.end(), is_same)) storages_.push_back(storage);
}

std::unique_ptr<SavedVariableHooks> OutlineScope::hooks() {
  return std::make_unique<PlaceHooks>(*this);
}

std::shared_ptr<SavedTensor> OutlineScope::new_place() {
  return places_.emplace_back(std::make_shared<SavedTensor>());
}

void OutlineScope::require_unchanged() const {
  for (const auto& place : places_) require_as_saved(place);
}

std::unique_ptr<SavedVariableHooks> TracingScope::hooks() {
  return std::make_unique<TracingHooks>(*this);
}

void TracingScope::require_unchanged() const {
  for (const Saved& saved : saved_) require_as_saved(saved.place);
}

std::unique_ptr<SavedVariableHooks> FillingScope::hooks() {
  return std::make_unique<FillingHooks>(*this);
}

void FillingScope::fill(const at::Tensor& tensor) {
  places_[filled_++]->set(tensor);
  if (filled_ == places_.size()) end_early();
}

}  // namespace trireme::model
