// A flipped bit anywhere in a run's folder: commands that read the run report it, or give the same
// bits as before. Commands run in this process, because thousands of them start.
// SPDX-License-Identifier: Apache-2.0
#include "support/temporary_folder.h"

#include "trireme/app_runtime/run.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Result {
  int code = -1;
  std::string out, errors;
};

/// Captures a stream's output while it lives.
class Caught {
 public:
  explicit Caught(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~Caught() { stream_.rdbuf(before_); }
  Caught(const Caught&) = delete;
  Caught& operator=(const Caught&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

Result trireme(std::vector<std::string> words) {
  words.insert(words.begin(), "trireme");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const Caught out(std::cout), errors(std::cerr);
  const int code = app::run(static_cast<int>(arguments.size()), arguments.data());
  return {.code = code, .out = out.text(), .errors = errors.text()};
}

/// A run with a frozen model, killed after step 2 of 4.
class ARun : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(job_) << "model: {kind: gpt, blocks: 1, width: 8, heads: 2, context: 8, "
                           "vocabulary: 16, lora_rank: 2}\n"
                           "data: {kind: synthetic, examples: 32}\n"
                           "train: {steps: 4, batch: 4, micro_batch: auto, validation_batches: 1}\n"
                           "threads: 1\n"
                           "checkpoint: {every: 2}\n"
                           "report: {tensorboard: false, html: false, directory: "
                        << run_.string() << "}\n";
    const Result whole = trireme({"train", job_});
    ASSERT_EQ(whole.code, 0) << whole.errors;
    digests_ = digests();
    fs::copy_file(run_ / "summary.json", folder_ / "summary.json");
    fs::remove_all(run_ / "checkpoints" / "step-4");
    fs::remove(run_ / "summary.json");
    fs::rename(run_, base_);
    begin_again();
    exported_ = exported();
    said_ = generated().out;
  }
  void begin_again() {
    fs::remove_all(run_);
    fs::copy(base_, run_, fs::copy_options::recursive);
  }
  std::string digests() {
    const auto summary = nlohmann::json::parse(io::read_file(run_ / "summary.json"));
    return summary["parameters_digest"].get<std::string>() +
           summary["losses_digest"].get<std::string>();
  }
  /// Everything that an export writes, or its error.
  std::string exported() {
    fs::remove_all(out_);
    const Result result = trireme({"export", run_.string(), "-o", out_.string()});
    if (result.code != 0) return refusal(result);
    return io::read_file(out_ / "model.safetensors") + io::read_file(out_ / "config.json");
  }
  Result generated() {
    return trireme({"generate", run_.string(), "--prompt-tokens", "1,2", "--tokens", "8"});
  }
  std::string resumed() {
    const Result result = trireme({"train", job_});
    return result.code != 0 ? refusal(result) : digests();
  }
  static std::string refusal(const Result& result) {
    EXPECT_EQ(result.code, 2) << result.errors;
    return "refused";
  }

  support::TemporaryFolder folder_;
  const std::string job_ = (folder_ / "job.yaml").string();
  const fs::path run_ = folder_ / "run", base_ = folder_ / "base", out_ = folder_ / "out";
  std::string digests_, exported_, said_;
};

class ABitOfARun : public ARun, public testing::WithParamInterface<const char*> {};

TEST_P(ABitOfARun, IsMissedOrMattersToNobody) {
  constexpr int kBits = 16;
  const fs::path file = run_ / GetParam();
  std::mt19937_64 random(7);
  int refused = 0;
  for (int i = 0; i < kBits; ++i) {
    begin_again();
    std::string bytes = io::read_file(file);
    // Spread over the file, anywhere in its part of it.
    const std::size_t begin = bytes.size() * static_cast<std::size_t>(i) / kBits,
                      end = bytes.size() * static_cast<std::size_t>(i + 1) / kBits;
    const std::size_t place = begin + random() % std::max<std::size_t>(1, end - begin);
    bytes.at(place) ^= static_cast<char>(1 << random() % 8);
    io::write_file(file, bytes);
    SCOPED_TRACE(testing::Message() << GetParam() << ", byte " << place);

    const std::string model = exported();
    if (model != "refused") {
      EXPECT_EQ(model == exported_, true) << "another model";
    }
    const Result said = generated();
    if (said.code != 0) refusal(said);
    if (said.code == 0) {
      EXPECT_EQ(said.out, said_);
    }
    const std::string run = resumed();
    if (run != "refused") {
      EXPECT_EQ(run, digests_);
    }
    refused += static_cast<int>(run == "refused");
  }
  const bool is_covered = std::string(GetParam()).find("checkpoints/") == 0;
  EXPECT_TRUE(is_covered ? refused > 0 : refused < kBits) << refused;
}

INSTANTIATE_TEST_SUITE_P(Files, ABitOfARun,
                         testing::Values("checkpoints/step-2/manifest.json",
                                         "checkpoints/step-2/job.yaml",
                                         "checkpoints/step-2/rank-0.safetensors",
                                         "checkpoints/step-2/rank-0.frozen.safetensors",
                                         "metrics.jsonl", "job.yaml", "plan.json"),
                         [](const auto& each) {
                           std::string name = fs::path(each.param).filename().string();
                           if (std::string(each.param) == "job.yaml") name = "job_of_the_run";
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

// The summary says where the run ended, but none of its numbers.
TEST_F(ARun, WhoseSummaryIsDamagedIsExportedAsBeforeOrNot) {
  const std::string summary = io::read_file(folder_ / "summary.json");
  for (std::size_t place = 0; place < summary.size(); place += 17) {
    std::string changed = summary;
    changed[place] ^= 1;
    io::write_file(run_ / "summary.json", changed);
    const std::string model = exported();
    if (model != "refused") {
      EXPECT_EQ(model == exported_, true) << "byte " << place;
    }
  }
}

}  // namespace
}  // namespace trireme
