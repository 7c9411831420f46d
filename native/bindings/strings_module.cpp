// Bindings of string kernels.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"
#include "gram/word_tables.hpp"

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

using Numbered = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Returns the number of all words.
int64_t word_count(int64_t length, int64_t n_letters) {
    require(length >= 1 && length <= 127, "words must have 1 to 127 letters");
    require(n_letters >= 1, "there must be letters");
    int64_t size = 1;
    for (int64_t k = 0; k < length && size <= (int64_t{1} << 40); ++k) size *= n_letters;
    return size;
}

// A table of all words that is multiplied by the weights of their distances in parts of bounded work.
class WordTransformer {
  public:
    WordTransformer(const std::string& isa, int64_t length, int64_t n_letters, Numbers eigenvalues, Numbered table)
        : native_(implementation(isa)),
          eigenvalues_(eigenvalues),
          table_(table),
          words_{length, n_letters, eigenvalues.data(), table.data()} {
        const int64_t size = word_count(length, n_letters);
        require(static_cast<int64_t>(table.shape(0)) == size, "table must have a number for each word");
        require(static_cast<int64_t>(eigenvalues.shape(0)) == length + 1, "there must be length + 1 eigenvalues");
        at_a_time_[kLastPlaces] = part_of(size, kLastPlaces);
        at_a_time_[kToDifferences] = at_a_time_[kFromDifferences] = part_of(size, kToDifferences);
    }

    // Does the next part, and returns whether another one is left.
    bool step(int n_threads) {
        if (stage_ <= kFromDifferences) {
            const int64_t units = native_.transform_units(words_, stage_);
            const int64_t first = unit_, last = std::min(units, first + at_a_time_[stage_]);
            if (first < last) {
                const ReleasedGil released;
                native_.word_transform(words_, stage_, first, last, n_threads);
            }
            unit_ = last;
            if (last == units) ++stage_, unit_ = 0;
        }
        return stage_ <= kFromDifferences;
    }

  private:
    int64_t part_of(int64_t size, int stage) const {
        const int64_t units = native_.transform_units(words_, stage), parts = size / kWordsAtATime + 1;
        return std::max<int64_t>(1, units / parts);
    }

    static constexpr int64_t kWordsAtATime = int64_t{1} << 22;  // a part takes about 20 ms

    const Implementation& native_;
    Numbers eigenvalues_;
    Numbered table_;
    WordTable words_;
    int64_t at_a_time_[3]{}, unit_ = 0;
    int stage_ = kToDifferences;
};

LetterRows letter_rows(const Letters& letters, const ConstIndices& starts, const std::optional<Numbers>& place_weights,
                       int64_t length, int64_t n_letters, int64_t first, int64_t last, std::size_t table,
                       std::size_t of_rows) {
    const auto n = static_cast<int64_t>(starts.shape(0)) - 1;
    require(0 <= first && first <= last && last <= n, "first and last must be rows");
    for (int64_t i = first; i < last; ++i)
        require(starts.data()[i] >= 0 && starts.data()[i] <= starts.data()[i + 1] &&
                    starts.data()[i + 1] <= static_cast<int64_t>(letters.shape(0)),
                "starts must not decrease, and be places of letters");
    require(!place_weights || place_weights->shape(0) == letters.shape(0), "place_weights must be one a letter");
    require(static_cast<int64_t>(table) == word_count(length, n_letters), "table must have a number for each word");
    require(static_cast<int64_t>(of_rows) == n, "there must be a number for each row");
    return {letters.data(), starts.data(), place_weights ? place_weights->data() : nullptr, length, n_letters};
}

void add_rows_to_words(Letters letters, ConstIndices starts, std::optional<Numbers> place_weights, int64_t length,
                       int64_t n_letters, int64_t first, int64_t last, Numbers coefficients, Numbered table) {
    const LetterRows rows = letter_rows(letters, starts, place_weights, length, n_letters, first, last, table.shape(0),
                                        coefficients.shape(0));
    const ReleasedGil released;
    mercer::add_to_words(rows, first, last, coefficients.data(), table.data());
}

void sum_words_of_rows(Letters letters, ConstIndices starts, std::optional<Numbers> place_weights, int64_t length,
                       int64_t n_letters, int64_t first, int64_t last, Numbers table, Numbered sums, int n_threads) {
    const LetterRows rows =
        letter_rows(letters, starts, place_weights, length, n_letters, first, last, table.shape(0), sums.shape(0));
    const ReleasedGil released;
    mercer::sum_over_words(rows, first, last, table.data(), sums.data(), n_threads);
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
    nb::class_<WordTransformer>(m, "WordTransformer")
        .def(nb::init<const std::string&, int64_t, int64_t, Numbers, Numbered>(), nb::arg("isa"), nb::arg("length"),
             nb::arg("n_letters"), nb::arg("eigenvalues").noconvert(), nb::arg("table").noconvert())
        .def("step", &WordTransformer::step, nb::arg("n_threads"));
    m.def("add_to_words", &add_rows_to_words, nb::arg("letters").noconvert(), nb::arg("starts").noconvert(),
          nb::arg("place_weights").noconvert().none(), nb::arg("length"), nb::arg("n_letters"), nb::arg("first"),
          nb::arg("last"), nb::arg("coefficients").noconvert(), nb::arg("table").noconvert());
    m.def("sum_over_words", &sum_words_of_rows, nb::arg("letters").noconvert(), nb::arg("starts").noconvert(),
          nb::arg("place_weights").noconvert().none(), nb::arg("length"), nb::arg("n_letters"), nb::arg("first"),
          nb::arg("last"), nb::arg("table").noconvert(), nb::arg("sums").noconvert(), nb::arg("n_threads"));
}

}  // namespace mercer
