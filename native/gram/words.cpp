// Kernels of words, compiled once per instruction set (see simd.hpp).
#include "gram/words.hpp"

#include "gram/simd.hpp"
#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {
namespace {

typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
typedef uint8_t LooseBytes __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));

constexpr uint8_t kNoLetter = 255, kNoWord = 128;
constexpr int kCounted = 5;        // distances that one pass counts
constexpr int kFullCounter = 255;  // steps until a counter of one byte is full

constexpr int64_t kBlock = 4096;                     // numbers of a table; a block of 32 KiB fits into the first cache
constexpr int64_t kChunk = int64_t{1} << 15;         // numbers; a copy of 256 KiB fits into the second cache
constexpr int64_t kLeastWidth = 8, kMostWidth = 64;  // adjacent numbers of a copy
constexpr int64_t kMostTasks = 32;                   // parts of a call that threads take

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

// A table of all words as blocks of words that differ in the last places only.
struct Splitting {
    int64_t last_places = 0, block = 1, n_blocks = 1, width = 1;

    explicit Splitting(const WordTable& words) {
        while (last_places < words.length && (last_places == 0 || block * words.n_letters <= kBlock))
            block *= words.n_letters, ++last_places;
        for (int64_t k = last_places; k < words.length; ++k) n_blocks *= words.n_letters;
        width = kChunk / n_blocks;
        width = width < kLeastWidth ? kLeastWidth : width > kMostWidth ? kMostWidth : width;
        if (width > block) width = block;
    }
};

// Along one place, `stride` numbers apart: the mean over the letters, and the other letters' differences from it.
template <int kLetters>
MERCER_INLINE void to_differences(double* numbers, int64_t size, int64_t stride, int64_t n_letters) {
    const int64_t letters = kLetters > 0 ? kLetters : n_letters;
    const double share = 1.0 / static_cast<double>(letters);
    for (double* base = numbers; base < numbers + size; base += letters * stride) {
        for (int64_t k = 0; k < stride; ++k) {
            double sum = base[k];
            for (int64_t letter = 1; letter < letters; ++letter) sum += base[k + letter * stride];
            const double mean = share * sum;
            base[k] = mean;
            for (int64_t letter = 1; letter < letters; ++letter) base[k + letter * stride] -= mean;
        }
    }
}

// The inverse: the differences of all letters add up to 0.
template <int kLetters>
MERCER_INLINE void from_differences(double* numbers, int64_t size, int64_t stride, int64_t n_letters) {
    const int64_t letters = kLetters > 0 ? kLetters : n_letters;
    for (double* base = numbers; base < numbers + size; base += letters * stride) {
        for (int64_t k = 0; k < stride; ++k) {
            const double mean = base[k];
            double others = 0.0;
            for (int64_t letter = 1; letter < letters; ++letter) {
                const double difference = base[k + letter * stride];
                others += difference;
                base[k + letter * stride] = mean + difference;
            }
            base[k] = mean - others;
        }
    }
}

struct Transform {
    const WordTable& words;
    const Splitting& split;
    int stage;
    int64_t first, last, n_tasks = 0;
};

// Number of places of word `number` with another letter than 0.
MERCER_INLINE int64_t nonzero_letters(int64_t number, int64_t n_letters) {
    int64_t count = 0;
    for (; number > 0; number /= n_letters) count += number % n_letters != 0;
    return count;
}

// The last places of some blocks, which are in the cache: differences, eigenvalues, and back.
template <int kLetters>
void last_places(const Transform& job, int64_t first, int64_t last) {
    const int64_t letters = job.words.n_letters, size = job.split.block;
    const Scratch memory(static_cast<std::size_t>(size));
    auto* nonzero = memory.as<uint8_t>();
    for (int64_t k = 0; k < size; ++k) nonzero[k] = static_cast<uint8_t>(nonzero_letters(k, letters));
    for (int64_t at = first; at < last; ++at) {
        double* block = job.words.table + at * size;
        const double* eigenvalues = job.words.eigenvalues + nonzero_letters(at, letters);
        int64_t stride = size;
        while (stride > 1) to_differences<kLetters>(block, size, stride /= letters, letters);
        for (int64_t k = 0; k < size; ++k) block[k] *= eigenvalues[nonzero[k]];
        for (; stride < size; stride *= letters) from_differences<kLetters>(block, size, stride, letters);
    }
}

// The first places of some words with equal last places. They are copied, because they may share a set of the cache.
template <int kLetters>
void first_places(const Transform& job, int64_t first, int64_t last) {
    const Splitting& split = job.split;
    const int64_t letters = job.words.n_letters;
    const Scratch memory(sizeof(double) * static_cast<std::size_t>(split.n_blocks * split.width));
    auto* numbers = memory.as<double>();
    for (int64_t unit = first; unit < last; ++unit) {
        double* from = job.words.table + unit * split.width;
        const int64_t left = split.block - unit * split.width, width = left < split.width ? left : split.width;
        const int64_t size = split.n_blocks * width;
        for (int64_t i = 0; i < split.n_blocks; ++i)
            for (int64_t k = 0; k < width; ++k) numbers[i * width + k] = from[i * split.block + k];
        for (int64_t stride = size / letters; stride >= width; stride /= letters) {
            if (job.stage == kToDifferences)
                to_differences<kLetters>(numbers, size, stride, letters);
            else
                from_differences<kLetters>(numbers, size, stride, letters);
        }
        for (int64_t i = 0; i < split.n_blocks; ++i)
            for (int64_t k = 0; k < width; ++k) from[i * split.block + k] = numbers[i * width + k];
    }
}

template <int kLetters>
void transform_task(void* context, int64_t task) {
    const auto& job = *static_cast<const Transform*>(context);
    const int64_t units = job.last - job.first;
    const int64_t first = job.first + units * task / job.n_tasks, last = job.first + units * (task + 1) / job.n_tasks;
    if (job.stage == kLastPlaces)
        last_places<kLetters>(job, first, last);
    else
        first_places<kLetters>(job, first, last);
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

void word_transform(const WordTable& words, int stage, int64_t first, int64_t last, int n_threads) {
    const Splitting split(words);
    Transform job{words, split, stage, first, last};
    const int64_t units = last - first, tasks = units < kMostTasks ? units : kMostTasks;
    job.n_tasks = tasks;
    const auto run = words.n_letters == 4 ? transform_task<4> : transform_task<0>;
    parallel_for(tasks, n_threads, run, &job);
}

int64_t transform_units(const WordTable& words, int stage) {
    const Splitting split(words);
    if (stage == kLastPlaces) return split.n_blocks;
    return split.n_blocks == 1 ? 0 : (split.block + split.width - 1) / split.width;
}

}  // namespace mercer::MERCER_ISA
