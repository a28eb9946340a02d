// SPDX-License-Identifier: Apache-2.0
#include "python_examples.h"

#include "errors.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/model/default_generator.h"
#include "trireme/tier/memory.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <string>
#include <utility>

namespace trireme::python {
namespace {

/// Seeds of examples, apart from those of layers.
constexpr std::uint64_t kExampleStream = 0x6578616d706c65;

/// What Python holds of examples is not the rank's to plan.
tier::MemoryAccount& account() {
  static tier::MemoryAccount& examples = tier::MemoryAccount::open("examples");
  return examples;
}

class PythonExamples final : public data::OwnExamples {
 public:
  explicit PythonExamples(Held object) : object_(std::move(object)) {
    const py::gil_scoped_acquire gil;
    size_ = object_->attr("size").cast<std::int64_t>();
    name_ = object_->attr("name").cast<std::string>();
  }

  std::int64_t size() const override { return size_; }
  std::string name() const override { return name_; }

  data::Example example(std::int64_t number) const override {
    keep_thread_state();
    const tier::AccountScope scope(account());
    const std::uint64_t seed = mix(kExampleStream, static_cast<std::uint64_t>(number));
    const model::DefaultGenerator drawn_from(at::detail::createCPUGenerator(seed));
    const py::gil_scoped_acquire gil;
    try {
      const py::tuple both = object_->attr("example")(number);
      return {both[0].cast<at::Tensor>(), both[1].cast<at::Tensor>()};
    } catch (py::error_already_set& error) {
      throw Raised(concat("example ", number, " of ", name_), std::move(error));
    }
  }

 private:
  Held object_;
  std::int64_t size_ = 0;
  std::string name_;
};

}  // namespace

std::unique_ptr<data::OwnExamples> examples_of(Held object) {
  return std::make_unique<PythonExamples>(std::move(object));
}

}  // namespace trireme::python
