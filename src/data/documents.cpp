// Document data set (SFT): a row of T + 1 tokens holds one document, or several with packing;
// padding and tokens that are not to be learned are masked.
// SPDX-License-Identifier: Apache-2.0
#include "document_files.h"
#include "file_list.h"
#include "kinds.h"
#include "numbered.h"
#include "packing.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::data {
namespace {

/// The same for all runs, so that no run trains on another's validation data.
constexpr std::uint64_t kSplitKey = 0x7472697465787473;

/// The part of a document that fits a row of `capacity` tokens.
std::span<const DocumentToken> fitting(std::span<const DocumentToken> tokens,
                                       std::int64_t capacity) {
  return tokens.first(std::min(tokens.size(), static_cast<std::size_t>(capacity)));
}

/// Counts learned tokens; the first token has no predecessor and is not learned.
std::int64_t count_learned(std::span<const DocumentToken> tokens) {
  return std::count_if(tokens.begin() + 1, tokens.end(),
                       [](DocumentToken token) { return token.is_learned(); });
}

/// Assignment of documents to rows, with counts for describe() and padding.
struct Layout {
  Rows rows;                               ///< the train part, then the validation part
  std::int64_t train = 0, validation = 0;  ///< rows
  std::int64_t train_documents = 0, validation_documents = 0;
  std::int64_t cut = 0, left_out = 0;  ///< documents
  std::int64_t tokens = 0;             ///< of all rows
  std::vector<std::int64_t> learned;   ///< tokens, by row
  std::vector<std::int64_t> inputs;    ///< tokens that the model takes, by row

  Layout(const DocumentFiles& files, const config::DataSpec& spec, std::int64_t capacity);

 private:
  void add_part(std::span<const std::int64_t> documents, std::span<const std::int64_t> lengths,
                bool is_packed, std::int64_t capacity);
};

class DocumentsDataset final : public NumberedExamples {
 public:
  DocumentsDataset(DocumentFiles files, Layout layout, const ExampleShape& shape,
                   const config::DataSpec& spec, std::int64_t seed)
      : NumberedExamples(shape, layout.train + layout.validation, layout.validation, seed),
        files_(std::move(files)),
        layout_(std::move(layout)),
        is_packed_(spec.packed),
        is_isolated_(spec.isolates_documents()) {}

  std::string digest() const override {
    const std::string how = concat(is_packed_ ? ", packed" : "", is_isolated_ ? ", isolated" : "");
    return how.empty() ? files_.digest() : trireme::digest(files_.digest() + how);
  }
  std::string describe() const override;

  std::optional<std::int64_t> train_counted(std::int64_t first, std::int64_t count) const override {
    return sum_of(layout_.learned, train_places(first, count));
  }
  std::optional<std::int64_t> train_tokens(std::int64_t first, std::int64_t count) const override {
    return sum_of(layout_.inputs, train_places(first, count));
  }
  std::optional<std::int64_t> validation_counted(std::int64_t first, std::int64_t count,
                                                 std::int64_t total) const override {
    return sum_of(layout_.learned, validation_places(first, count, total));
  }
  DocumentLengths train_documents(std::int64_t first, std::int64_t count) const override {
    return lengths_of(train_places(first, count));
  }
  DocumentLengths validation_documents(std::int64_t first, std::int64_t count,
                                       std::int64_t total) const override {
    return lengths_of(validation_places(first, count, total));
  }

 protected:
  MicroBatch empty(std::int64_t examples) const override {
    return empty_tokens(examples, shape_.inputs);
  }
  void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const override;

 private:
  static std::int64_t sum_of(const std::vector<std::int64_t>& by_row,
                             const std::vector<std::int64_t>& examples) {
    std::int64_t sum = 0;
    for (const std::int64_t example : examples) sum += by_row[static_cast<std::size_t>(example)];
    return sum;
  }

  DocumentLengths lengths_of(const std::vector<std::int64_t>& examples) const;

  DocumentFiles files_;
  Layout layout_;
  bool is_packed_, is_isolated_;
};

}  // namespace

std::unique_ptr<Dataset> make_documents(const config::DataSpec& spec, const ExampleShape& shape,
                                        std::int64_t seed) {
  if (!shape.takes_masks)
    throw InputError(
        "data.kind is documents, but the loss of this model does not support masked targets "
        "(model::ChainModel::takes_masked_targets): use text or tokens");
  if (spec.isolates_documents() && !shape.isolates_documents)
    throw InputError(concat(
        "data.isolated is ", spec.isolated ? "true" : "auto, which is true for packed documents",
        ", but the layers of this model do not keep documents of a row apart "
        "(model::ChainModel::isolates_documents): say false, with which a document sees those "
        "before it in its row",
        spec.packed ? ", or data.packed: false" : ""));
  DocumentFiles files(list_files(spec.files));
  files.require_tokens_below(shape.classes);
  Layout layout(files, spec, shape.inputs + 1);
  return std::make_unique<DocumentsDataset>(std::move(files), std::move(layout), shape, spec, seed);
}

namespace {

Layout::Layout(const DocumentFiles& files, const config::DataSpec& spec, std::int64_t capacity) {
  std::vector<std::int64_t> usable, lengths, learned_of;
  for (std::int64_t document = 0; document < files.size(); ++document) {
    const auto all = files.tokens(document), kept = fitting(all, capacity);
    lengths.push_back(static_cast<std::int64_t>(kept.size()));
    learned_of.push_back(count_learned(kept));
    if (learned_of.back() == 0) continue;
    cut += kept.size() < all.size() ? 1 : 0;
    usable.push_back(document);
  }
  left_out = files.size() - static_cast<std::int64_t>(usable.size());
  const auto count = static_cast<std::int64_t>(usable.size());
  validation_documents = validation_size(count, spec.validation_fraction);
  train_documents = count - validation_documents;
  if (train_documents == 0)
    throw InputError(concat(files.describe(), ": none of ", files.size(),
                            " documents has a token to be learned among its first ", capacity,
                            " (the model's context + 1), not counting the first one"));
  if (spec.validation_fraction > 0 && validation_documents == 0)
    throw InputError(concat(files.describe(), ": the validation part (data.validation_fraction = ",
                            to_text(spec.validation_fraction), ", 0 for none) has none of ", count,
                            " documents, must have at least 1"));
  const Permutation order(static_cast<std::uint64_t>(count), kSplitKey);
  std::vector<std::int64_t> split;
  for (std::int64_t place = 0; place < count; ++place)
    split.push_back(usable[order(static_cast<std::uint64_t>(place))]);
  const std::span<const std::int64_t> parts = split;
  const auto border = static_cast<std::size_t>(train_documents);
  add_part(parts.first(border), lengths, spec.packed, capacity);
  train = rows.size();
  add_part(parts.subspan(border), lengths, spec.packed, capacity);
  validation = rows.size() - train;
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    learned.push_back(0);
    std::int64_t of_row = 0;
    for (const std::int64_t document : rows[row]) {
      learned.back() += learned_of[static_cast<std::size_t>(document)];
      of_row += lengths[static_cast<std::size_t>(document)];
    }
    tokens += of_row;
    inputs.push_back(
        std::min(of_row, capacity - 1));  // the last token of a full row is only a target
  }
}

void Layout::add_part(std::span<const std::int64_t> documents,
                      std::span<const std::int64_t> lengths, bool is_packed,
                      std::int64_t capacity) {
  if (!is_packed) {
    for (const std::int64_t& document : documents) rows.add({&document, 1});
    return;
  }
  const Rows packed = packed_rows(documents, lengths, capacity);
  for (std::int64_t row = 0; row < packed.size(); ++row) rows.add(packed[row]);
}

void DocumentsDataset::fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const {
  const std::int64_t context = shape_.inputs;
  std::int64_t* const input = batch.input.data_ptr<std::int64_t>() + row * context;
  std::int64_t* const target = batch.target.data_ptr<std::int64_t>() + row * context;
  std::int64_t place = 0;  // among context + 1 tokens; a token's target is the next one
  for (const std::int64_t document : layout_.rows[example]) {
    bool is_first = true;
    for (const DocumentToken token : fitting(files_.tokens(document), context + 1)) {
      if (place < context) input[place] = token.number();
      if (place > 0) target[place - 1] = token.is_learned() && !is_first ? token.number() : kMasked;
      is_first = false;
      ++place;
    }
  }
  std::fill(input + std::min(place, context), input + context, 0);
  std::fill(target + place - 1, target + context, kMasked);
}

DocumentLengths DocumentsDataset::lengths_of(const std::vector<std::int64_t>& examples) const {
  DocumentLengths lengths;
  if (!is_isolated_) return lengths;
  const std::int64_t context = shape_.inputs;
  for (const std::int64_t example : examples) {
    std::int64_t begin = 0;
    for (const std::int64_t document : layout_.rows[example]) {
      const auto tokens = fitting(files_.tokens(document), context + 1).size();
      // The last token of a full row is only a target.
      const std::int64_t end = std::min(begin + static_cast<std::int64_t>(tokens), context);
      lengths.push_back(end - begin);
      begin = end;
    }
    if (begin < context) lengths.push_back(context - begin);
  }
  return lengths;
}

std::string DocumentsDataset::describe() const {
  const auto in_rows = [this](std::int64_t documents, std::int64_t rows) {
    return is_packed_ ? concat(documents, " in ", count_of(rows, "row")) : concat(documents);
  };
  const std::string validation =
      layout_.validation == 0 ? "none" : in_rows(layout_.validation_documents, layout_.validation);
  const auto percent = [](std::int64_t part, std::int64_t all) {
    return std::lround(100 * static_cast<double>(part) / static_cast<double>(all));
  };
  std::int64_t learned = 0;
  for (const std::int64_t of_row : layout_.learned) learned += of_row;
  std::string text =
      concat(files_.describe(), ": ", in_rows(layout_.train_documents, layout_.train),
             " to train on, ", validation, " for validation; ", is_isolated_ ? "isolated; " : "",
             "rows ", percent(layout_.tokens, layout_.rows.size() * (shape_.inputs + 1)),
             " % full, ", percent(learned, layout_.rows.size() * shape_.inputs), " % learned");
  if (layout_.cut > 0) text += concat("; ", layout_.cut, " cut to ", shape_.inputs + 1, " tokens");
  if (layout_.left_out > 0)
    text += concat("; ", layout_.left_out, " left out, in which nothing is to be learned");
  return text;
}

}  // namespace
}  // namespace trireme::data
