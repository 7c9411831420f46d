#include "gram/word_tables.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsPerTask = 256;

// Calls visit(number, place) for each counted word of a row; `number` is its place in the table of all words.
template <class Visit>
inline void for_each_word(const LetterRows& rows, int64_t row, Visit visit) {
    int64_t top = 1;  // value of the first letter of a word
    for (int64_t k = 1; k < rows.length; ++k) top *= rows.n_letters;
    int64_t number = 0, run = 0;
    for (int64_t at = rows.starts[row]; at < rows.starts[row + 1]; ++at) {
        const int64_t letter = rows.letters[at];
        if (letter < 0 || letter >= rows.n_letters) {
            number = run = 0;
            continue;
        }
        if (run == rows.length) {
            number -= top * rows.letters[at - rows.length];
            --run;
        }
        number = number * rows.n_letters + letter;
        if (++run == rows.length) visit(number, at - rows.length + 1);
    }
}

struct SumsJob {
    const LetterRows& rows;
    int64_t first, last;
    const double* table;
    double* sums;
};

void sums_task(void* context, int64_t task) {
    const auto& job = *static_cast<const SumsJob*>(context);
    const int64_t first = job.first + task * kRowsPerTask, last = std::min(first + kRowsPerTask, job.last);
    for (int64_t row = first; row < last; ++row) {
        double sum = 0.0;
        if (job.rows.place_weights == nullptr)
            for_each_word(job.rows, row, [&](int64_t number, int64_t) { sum += job.table[number]; });
        else
            for_each_word(job.rows, row, [&](int64_t number, int64_t place) {
                sum += job.rows.place_weights[place] * job.table[number];
            });
        job.sums[row] = sum;
    }
}

}  // namespace

void add_to_words(const LetterRows& rows, int64_t first, int64_t last, const double* coefficients, double* table) {
    for (int64_t row = first; row < last; ++row) {
        const double coefficient = coefficients[row];
        if (coefficient == 0.0) continue;
        if (rows.place_weights == nullptr)
            for_each_word(rows, row, [&](int64_t number, int64_t) { table[number] += coefficient; });
        else
            for_each_word(rows, row, [&](int64_t number, int64_t place) {
                table[number] += rows.place_weights[place] * coefficient;
            });
    }
}

void sum_over_words(const LetterRows& rows, int64_t first, int64_t last, const double* table, double* sums,
                    int n_threads) {
    SumsJob job{rows, first, last, table, sums};
    parallel_for((last - first + kRowsPerTask - 1) / kRowsPerTask, n_threads, sums_task, &job);
}

}  // namespace mercer
