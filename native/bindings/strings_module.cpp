// Bindings of string kernels.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"
#include "parallel/scratch.hpp"

namespace mercer {
namespace {

using Letters = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Strings as rows of letters. It keeps the arrays alive and validates them once.
class Strings {
  public:
    Strings(Letters letters, ConstIndices starts, int64_t n_letters)
        : letters_(letters), starts_(starts), n_letters_(n_letters) {
        require(starts.shape(0) > 0 && starts.data()[0] == 0, "starts must begin with 0");
        for (std::size_t i = 1; i < starts.shape(0); ++i)
            require(starts.data()[i - 1] <= starts.data()[i], "starts must not decrease");
        require(starts.data()[starts.shape(0) - 1] == static_cast<int64_t>(letters.shape(0)),
                "starts must end with the number of letters");
        for (std::size_t k = 0; k < letters.shape(0); ++k)
            require(letters.data()[k] >= 0 && letters.data()[k] < n_letters,
                    "letters must be numbered below n_letters");
    }

    StringsView rows(const ConstIndices& chosen) const {
        const auto count = static_cast<int64_t>(chosen.shape(0)), n = static_cast<int64_t>(starts_.shape(0)) - 1;
        check_indices(chosen.data(), count, n);
        return {letters_.data(), starts_.data(), chosen.data(), count, n_letters_};
    }

  private:
    Letters letters_;
    ConstIndices starts_;
    int64_t n_letters_;
};

void require_shape(const Matrix& out, const StringsView& left, const StringsView& right) {
    require(static_cast<int64_t>(out.shape(0)) == left.count && static_cast<int64_t>(out.shape(1)) == right.count,
            "out must have a row per left row and a column per right row");
}

void edit_distances(const std::string& isa, const Strings& strings, ConstIndices left_rows, ConstIndices right_rows,
                    Matrix out) {
    const StringsView left = strings.rows(left_rows), right = strings.rows(right_rows);
    require_shape(out, left, right);
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.edit_distances(left, right, out.data(), right.count);
}

void subsequences(const std::string& isa, const Strings& strings, ConstIndices left_rows, ConstIndices right_rows,
                  int64_t length, double decay, Matrix out) {
    const StringsView left = strings.rows(left_rows), right = strings.rows(right_rows);
    require_shape(out, left, right);
    require(length >= 1, "length must be at least 1");
    require(decay > 0.0 && decay <= 1.0, "decay must be above 0 and at most 1");
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.subsequences(left, right, length, decay, out.data(), right.count);
}

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void alignments(const std::string& isa, const Strings& strings, ConstIndices left_rows, ConstIndices right_rows,
                Numbers letters, double open, double extend, Matrix out) {
    const StringsView left = strings.rows(left_rows), right = strings.rows(right_rows);
    require_shape(out, left, right);
    const auto size = static_cast<int64_t>(letters.shape(0));
    require(size == 2 || (left.n_letters < (1 << 16) && size == left.n_letters * left.n_letters),
            "there must be a factor for each pair of letters, or two");
    double largest = 0.0;
    for (int64_t k = 0; k < size; ++k) {
        require(letters.data()[k] > 0.0 && letters.data()[k] < 0x1p100,
                "factors of letters must be above 0 and finite");
        if (letters.data()[k] > largest) largest = letters.data()[k];
    }
    require(open >= 0.0 && open <= 1.0 && extend >= 0.0 && extend <= 1.0, "factors of gaps must be from 0 to 1");
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.alignments(left, right, {letters.data(), size == 2, largest, open, extend}, out.data(), right.count);
}

using WordLetters = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

WordWeights word_weights(int64_t length, const Numbers& weights) {
    require(length >= 1 && length <= 127, "words must have 1 to 127 letters");
    const auto count = static_cast<int64_t>(weights.shape(0));
    require(count >= 1 && count <= length + 1, "there must be a weight for some of the distances 0, 1, ...");
    return {length, weights.data(), count};
}

// Rows of letters of one byte. It keeps the arrays alive and validates them once.
class WordRows {
  public:
    WordRows(WordLetters letters, ConstIndices starts, std::optional<Numbers> place_weights)
        : letters_(letters), starts_(starts), place_weights_(place_weights) {
        require(starts.shape(0) > 0 && starts.data()[0] == 0, "starts must begin with 0");
        for (std::size_t i = 1; i < starts.shape(0); ++i)
            require(starts.data()[i - 1] <= starts.data()[i], "starts must not decrease");
        require(starts.data()[starts.shape(0) - 1] == static_cast<int64_t>(letters.shape(0)),
                "starts must end with the number of letters");
        require(!place_weights || place_weights->shape(0) == letters.shape(0), "place_weights must be one a letter");
    }

    WordsView rows(const ConstIndices& chosen) const {
        const auto count = static_cast<int64_t>(chosen.shape(0)), n = static_cast<int64_t>(starts_.shape(0)) - 1;
        check_indices(chosen.data(), count, n);
        return {letters_.data(), place_weights_ ? place_weights_->data() : nullptr, starts_.data(), chosen.data(),
                count};
    }

  private:
    WordLetters letters_;
    ConstIndices starts_;
    std::optional<Numbers> place_weights_;
};

void word_pairs(const std::string& isa, const WordRows& lefts, ConstIndices left_rows, const WordRows& rights,
                ConstIndices right_rows, int64_t length, Numbers weights, Matrix out) {
    const WordsView left = lefts.rows(left_rows), right = rights.rows(right_rows);
    require((left.place_weights == nullptr) == (right.place_weights == nullptr),
            "both sides must have place_weights, or neither");
    require(static_cast<int64_t>(out.shape(0)) == left.count && static_cast<int64_t>(out.shape(1)) == right.count,
            "out must have a row per left row and a column per right row");
    const WordWeights words = word_weights(length, weights);
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.word_pairs(left, right, words, out.data(), right.count);
}

void word_transform(const std::string& isa, int64_t length, Numbers weights, int64_t n_letters,
                    nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> table) {
    const WordWeights words = word_weights(length, weights);
    require(n_letters >= 1, "there must be letters");
    int64_t size = 1;
    for (int64_t k = 0; k < length && size <= (int64_t{1} << 40); ++k) size *= n_letters;
    require(static_cast<int64_t>(table.shape(0)) == size, "table must have a number for each word");
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    Scratch planes(sizeof(double) * static_cast<std::size_t>((words.n_weights - 1) * size + 1));
    native.word_transform(words, n_letters, table.data(), planes.as<double>());
}

}  // namespace

void bind_strings(nb::module_& m) {
    nb::class_<Strings>(m, "Strings")
        .def(nb::init<Letters, ConstIndices, int64_t>(), nb::arg("letters").noconvert(), nb::arg("starts").noconvert(),
             nb::arg("n_letters"));
    m.def("edit_distances", &edit_distances, nb::arg("isa"), nb::arg("strings"), nb::arg("left_rows").noconvert(),
          nb::arg("right_rows").noconvert(), nb::arg("out").noconvert());
    m.def("alignments", &alignments, nb::arg("isa"), nb::arg("strings"), nb::arg("left_rows").noconvert(),
          nb::arg("right_rows").noconvert(), nb::arg("letters").noconvert(), nb::arg("open"), nb::arg("extend"),
          nb::arg("out").noconvert());
    m.def("subsequences", &subsequences, nb::arg("isa"), nb::arg("strings"), nb::arg("left_rows").noconvert(),
          nb::arg("right_rows").noconvert(), nb::arg("length"), nb::arg("decay"), nb::arg("out").noconvert());
    nb::class_<WordRows>(m, "WordRows")
        .def(nb::init<WordLetters, ConstIndices, std::optional<Numbers>>(), nb::arg("letters").noconvert(),
             nb::arg("starts").noconvert(), nb::arg("place_weights").noconvert().none());
    m.def("word_pairs", &word_pairs, nb::arg("isa"), nb::arg("lefts"), nb::arg("left_rows").noconvert(),
          nb::arg("rights"), nb::arg("right_rows").noconvert(), nb::arg("length"), nb::arg("weights").noconvert(),
          nb::arg("out").noconvert());
    m.def("word_transform", &word_transform, nb::arg("isa"), nb::arg("length"), nb::arg("weights").noconvert(),
          nb::arg("n_letters"), nb::arg("table").noconvert());
}

}  // namespace mercer
