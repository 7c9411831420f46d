// Kernels of words, compiled once per instruction set (see simd.hpp).
#include "gram/words.hpp"

#include "gram/simd.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {
namespace {

typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
typedef uint8_t LooseBytes __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));

constexpr uint8_t kNoLetter = 255, kNoWord = 128;
constexpr int kCounted = 5;        // distances that one pass counts
constexpr int kFullCounter = 255;  // steps until a counter of one byte is full

// A row with room on both sides, so that vectors may reach beyond its ends.
struct PaddedRow {
    const uint8_t* letters;
    const uint8_t* no_word;  // for each place: 128 if no counted word begins there, else 0
    const double* weights;   // of the words, or null
    int64_t n_letters, n_words;
};

MERCER_INLINE Bytes load(const uint8_t* from) { return *reinterpret_cast<const LooseBytes*>(from); }

// 1 in each lane whose letter is another one, else 0.
MERCER_INLINE Bytes differs(const uint8_t* letters, uint8_t letter) {
    return Bytes(load(letters) != letter) & uint8_t{1};
}

// Rows of a view with `pad` places on both sides.
class PaddedRows {
  public:
    PaddedRows(const WordsView& view, int64_t length, int64_t pad)
        : view_(view),
          length_(length),
          pad_(pad),
          stride_(longest(view) + 2 * pad),
          memory_(static_cast<std::size_t>(2 * stride_ * view.count + 1)) {
        for (int64_t i = 0; i < view.count; ++i) {
            uint8_t *letters = row(i), *no_word = letters + stride_ * view.count;
            for (int64_t k = -pad; k < stride_ - pad; ++k) {
                letters[k] = kNoLetter;
                no_word[k] = kNoWord;
            }
            const uint8_t* from = view.letters + view.starts[view.rows[i]];
            const int64_t n = view.length(i);
            int64_t run = 0;  // letters before this place that may be in words
            for (int64_t k = 0; k < n; ++k) {
                letters[k] = from[k];
                run = from[k] == kNoLetter ? 0 : run + 1;
                if (run >= length) no_word[k - length + 1] = 0;
            }
        }
    }

    PaddedRow operator[](int64_t i) const {
        const int64_t n = view_.length(i);
        const double* weights =
            view_.place_weights == nullptr ? nullptr : view_.place_weights + view_.starts[view_.rows[i]];
        return {row(i), row(i) + stride_ * view_.count, weights, n, n - length_ + 1};
    }

  private:
    static int64_t longest(const WordsView& view) {
        int64_t most = 0;
        for (int64_t i = 0; i < view.count; ++i)
            if (view.length(i) > most) most = view.length(i);
        return most;
    }
    uint8_t* row(int64_t i) const { return memory_.as<uint8_t>() + i * stride_ + pad_; }

    const WordsView& view_;
    int64_t length_, pad_, stride_;
    Scratch memory_;
};

// Visits all pairs of words by diagonals: lane k compares the words that begin at p in the left row and at
// p + diagonal + k in the right row, and follows p. See visits(p, distances), where 128 is added for a word that does
// not count.
template <class See>
MERCER_INLINE void for_each_pair(const PaddedRow& left, const PaddedRow& right, int64_t length, See see) {
    for (int64_t diagonal = 1 - left.n_words; diagonal < right.n_words; diagonal += kVectorBytes) {
        const int64_t lowest = 1 - diagonal - kVectorBytes, first = lowest > 0 ? lowest : 0;
        const int64_t last = left.n_words < right.n_words - diagonal ? left.n_words : right.n_words - diagonal;
        if (first >= last) continue;
        const uint8_t *s = left.letters, *t = right.letters + diagonal;
        Bytes distances{};
        for (int64_t k = first; k < first + length; ++k) distances += differs(t + k, s[k]);
        for (int64_t p = first; p < last; ++p) {
            if (left.no_word[p] == 0) see(p, diagonal, distances | load(right.no_word + diagonal + p));
            distances += differs(t + p + length, s[p + length]) - differs(t + p, s[p]);
        }
    }
}

// Returns the sum of h(d) over the distances first, first + 1, ... of which there are at most kCounted.
MERCER_INLINE double counted_sum(const PaddedRow& left, const PaddedRow& right, const WordWeights& words,
                                 int64_t first) {
    Bytes counters[kCounted] = {};
    int64_t totals[kCounted] = {};
    int steps = 0;
    const auto flush = [&]() MERCER_LAMBDA_INLINE {
        for (int m = 0; m < kCounted; ++m) {
            for (int lane = 0; lane < kVectorBytes; ++lane) totals[m] += counters[m][lane];
            counters[m] = Bytes{};
        }
        steps = 0;
    };
    for_each_pair(left, right, words.length, [&](int64_t, int64_t, Bytes distances) MERCER_LAMBDA_INLINE {
        for (int m = 0; m < kCounted; ++m) counters[m] -= Bytes(distances == static_cast<uint8_t>(first + m));
        if (++steps == kFullCounter) flush();
    });
    flush();
    double sum = 0.0;
    for (int m = 0; m < kCounted && first + m < words.n_weights; ++m)
        sum += words.weights[first + m] * static_cast<double>(totals[m]);
    return sum;
}

MERCER_INLINE double weighted_sum(const PaddedRow& left, const PaddedRow& right, const WordWeights& words) {
    double sum = 0.0;
    for_each_pair(left, right, words.length, [&](int64_t p, int64_t diagonal, Bytes distances) MERCER_LAMBDA_INLINE {
        for (int lane = 0; lane < kVectorBytes; ++lane)
            if (distances[lane] < words.n_weights)
                sum += words.weights[distances[lane]] * left.weights[p] * right.weights[p + diagonal + lane];
    });
    return sum;
}

}  // namespace

void word_pairs(const WordsView& left, const WordsView& right, const WordWeights& words, double* out,
                int64_t out_stride) {
    const PaddedRows lefts(left, words.length, words.length + 1),
        rights(right, words.length, words.length + kVectorBytes + 1);
    for (int64_t i = 0; i < left.count; ++i) {
        const PaddedRow s = lefts[i];
        for (int64_t j = 0; j < right.count; ++j) {
            const PaddedRow t = rights[j];
            double sum = 0.0;
            if (s.n_words > 0 && t.n_words > 0) {
                if (s.weights != nullptr)
                    sum = weighted_sum(s, t, words);
                else
                    for (int64_t first = 0; first < words.n_weights; first += kCounted)
                        sum += counted_sum(s, t, words, first);
            }
            out[i * out_stride + j] = sum;
        }
    }
}

// Plane m of a word u is the sum of the table over the words that differ from u in m of the places seen so far.
void word_transform(const WordWeights& words, int64_t n_letters, double* table, double* planes) {
    int64_t size = 1;
    for (int64_t k = 0; k < words.length; ++k) size *= n_letters;
    const int64_t most = words.n_weights - 1;
    for (int64_t k = 0; k < most * size; ++k) planes[k] = 0.0;
    int64_t stride = size;
    for (int64_t place = 0; place < words.length; ++place) {
        stride /= n_letters;
        for (int64_t m = place + 1 < most ? place + 1 : most; m >= 1; --m) {
            const double* __restrict from = m == 1 ? table : planes + (m - 2) * size;
            double* __restrict to = planes + (m - 1) * size;
            for (int64_t base = 0; base < size; base += n_letters * stride) {
                for (int64_t k = base; k < base + stride; ++k) {
                    double sum = 0.0;
                    for (int64_t letter = 0; letter < n_letters; ++letter) sum += from[k + letter * stride];
                    for (int64_t letter = 0; letter < n_letters; ++letter)
                        to[k + letter * stride] += sum - from[k + letter * stride];
                }
            }
        }
    }
    for (int64_t k = 0; k < size; ++k) {
        double sum = words.weights[0] * table[k];
        for (int64_t m = 1; m <= most; ++m) sum += words.weights[m] * planes[(m - 1) * size + k];
        table[k] = sum;
    }
}

}  // namespace mercer::MERCER_ISA
