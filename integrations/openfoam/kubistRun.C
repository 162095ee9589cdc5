/* A Kubist table that all ranks of an OpenFOAM run write into: see kubistRun.H.
 *
 * Licensed under the GNU General Public License, version 3 or later: see LICENSE.
 */

#include "kubistRun.H"

#include "IOstreams.H"
#include "OStringStream.H"
#include "Pstream.H"
#include "PstreamReduceOps.H"
#include "error.H"
#include "primitiveEntry.H"
#include "token.H"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "kubist_mpi.h"

namespace
{

double now()
{
    return std::chrono::duration<double>
    (
        std::chrono::steady_clock::now().time_since_epoch()
    ).count();
}

std::string quoted(const std::string& text)
{
    std::string out = "\"";
    for (const char c : text)
    {
        if (c == '"' || c == '\\')
        {
            out += '\\';
            out += c;
        }
        else if (static_cast<unsigned char>(c) < 0x20)
        {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
            out += code;
        }
        else
        {
            out += c;
        }
    }
    return out + '"';
}

// With all digits, so that the domain equals that of the mesh.
std::string number(const double value)
{
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

std::string joined(const std::vector<std::string>& parts)
{
    std::string all;
    for (const std::string& part : parts)
    {
        all += (all.empty() ? "" : ", ") + part;
    }
    return all;
}

// Converts the entries of a dictionary to members of a JSON object, without its braces: numbers,
// words and strings. Only `true` and `false` become booleans, because "yes" may be a name.
std::string members(const Foam::dictionary& dict)
{
    std::vector<std::string> parts;
    for (const Foam::entry& one : dict)
    {
        std::string value;
        if (one.isDict())
        {
            value = "{" + members(one.dict()) + "}";
        }
        else
        {
            const Foam::tokenList& tokens = one.stream();
            const Foam::token first(tokens.empty() ? Foam::token() : tokens[0]);
            if (first.isLabel())
            {
                value = std::to_string(first.labelToken());
            }
            else if (first.isNumber())
            {
                value = number(first.number());
            }
            else if (first.isWord())
            {
                const Foam::word& word = first.wordToken();
                value = word == "true" || word == "false" ? std::string(word) : quoted(word);
            }
            else if (first.isString())
            {
                value = quoted(first.stringToken());
            }
            else
            {
                FatalIOErrorInFunction(dict)
                    << one.keyword() << ": a number, a word or a string is wanted here"
                    << Foam::exit(Foam::FatalIOError);
            }
        }
        parts.push_back(quoted(one.keyword()) + ": " + value);
    }
    return joined(parts);
}

int modeOf(const Foam::dictionary& dict)
{
    const Foam::word mode(dict.lookupOrDefault<Foam::word>("mode", "auto"));
    if (mode == "auto") return KUBIST_MPI_AUTO;
    if (mode == "rank") return KUBIST_MPI_PER_RANK;
    if (mode == "node") return KUBIST_MPI_PER_NODE;
    FatalIOErrorInFunction(dict)
        << "mode: " << mode << " is none of auto, rank, node" << Foam::exit(Foam::FatalIOError);
    return KUBIST_MPI_AUTO;
}

} // namespace


struct Foam::kubistRun::handles
{
    // With MPI, it has the table and the writer below.
    KubistMpi mpi;
    bool parallel;
    KubistTable* table;
    KubistWriter* writer;
};


std::string Foam::kubistRun::typeOf(const scalar)
{
    return sizeof(scalar) == 4 ? "f32" : "f64";
}

std::string Foam::kubistRun::typeOf(const label)
{
    return sizeof(label) == 4 ? "i32" : "i64";
}

std::string Foam::kubistRun::unitOf(const word& field)
{
    if (field == "d" || field == "dTarget") return "m";
    if (field == "U" || field == "UTurb") return "m/s";
    if (field == "rho") return "kg/m^3";
    if (field == "T") return "K";
    if (field == "mass0") return "kg";
    if (field == "age") return "s";
    return "";
}


Foam::kubistRun::kubistRun
(
    const Time& time,
    const string& who,
    const dictionary& dict,
    const fileName& defaultTable
)
:
    time_(time),
    who_(who),
    dict_(dict),
    location_(dict.lookupOrDefault<fileName>("table", defaultTable)),
    handles_(),
    failed_(false),
    waited_(0),
    worst_(0),
    steps_(0),
    began_(now())
{
    const bool address = location_.find("://") != std::string::npos;
    if (!address && location_[0] != '/')
    {
        // All ranks write one table of the case, not one in each processor folder.
        location_ = time.globalPath()/location_;
    }
}

Foam::kubistRun::~kubistRun()
{
    close();
}

bool Foam::kubistRun::isOpen() const
{
    return handles_ || failed_;
}

void Foam::kubistRun::fail(const std::string& why)
{
    const word what(dict_.lookupOrDefault<word>("onFailure", "stop"));
    if (what == "warn")
    {
        failed_ = true;
        Perr<< who_.c_str() << ": " << why.c_str() << endl
            << who_.c_str() << ": the run goes on, and nothing more is written to "
            << location_.c_str() << endl;
        return;
    }
    FatalErrorInFunction << who_.c_str() << ": " << why.c_str() << exit(FatalError);
}

void Foam::kubistRun::check(int status, const char* doing)
{
    if (status != KUBIST_STATUS_OK && !failed_)
    {
        fail(std::string(doing) + ": " + kubist_message());
    }
}

void Foam::kubistRun::openAlone
(
    const std::string& table,
    const std::string& writer,
    const label after
)
{
    handles& h = *handles_;
    const std::string named =
        "{\"name\": \"rank-0\", \"tokens\": true" + (writer.empty() ? "" : ", " + writer) + "}";
    int status = kubist_table_open(location_.c_str(), &h.table);
    if (status == KUBIST_STATUS_NOT_FOUND)
    {
        status = kubist_table_create(location_.c_str(), table.c_str(), &h.table);
    }
    const std::string own = "{\"kind\": \"rank\", \"count\": 1}";
    const std::string declared = "{\"count\": 1, \"after\": " + std::to_string(after) + "}";
    if (status == KUBIST_STATUS_OK) status = kubist_writer_open(h.table, named.c_str(), &h.writer);
    if (status == KUBIST_STATUS_OK) status = kubist_await_writers(h.table, own.c_str());
    if (status == KUBIST_STATUS_OK) status = kubist_retract_after(h.table, after, nullptr);
    if (status == KUBIST_STATUS_OK) status = kubist_declare_writers(h.table, declared.c_str());
    check(status, "opening the table");
}

void Foam::kubistRun::openTogether
(
    const std::string& table,
    const std::string& writer,
    const label after
)
{
    handles& h = *handles_;
    const std::string options = "{" + writer + "}";
    KubistMpiOptions with;
    std::memset(&with, 0, sizeof with);
    with.size = sizeof with;
    with.mode = modeOf(dict_);
    with.lane_bytes = dict_.lookupOrDefault<label>("laneMegabytes", 0)*uint64_t(1 << 20);
    with.writer_options = options.c_str();
    with.restart = 1;
    with.restart_after = after;
    h.parallel = true;
    const char* location = location_.c_str();
    int status = kubist_mpi_open(MPI_COMM_WORLD, location, nullptr, &with, &h.mpi);
    if (status == KUBIST_STATUS_NOT_FOUND)
    {
        status = kubist_mpi_open(MPI_COMM_WORLD, location, table.c_str(), &with, &h.mpi);
    }
    if (status != KUBIST_STATUS_OK)
    {
        // All ranks have the same message, and no handle is open.
        const std::string why = h.mpi.message;
        handles_.reset();
        fail("opening the table: " + why);
        return;
    }
    h.table = h.mpi.table;
    h.writer = h.mpi.writer;
}

void Foam::kubistRun::open
(
    const std::vector<column>& columns,
    const std::vector<word>& identity,
    const boundBox& bounds,
    const std::string& metadata
)
{
    std::vector<std::string> names, kept, shaped;
    for (const column& one : columns)
    {
        const std::string unit = one.unit.empty() ? "" : ", \"unit\": " + quoted(one.unit);
        names.push_back(quoted(one.name) + ": {\"type\": " + quoted(one.type) + unit + "}");
    }
    for (const word& name : identity)
    {
        kept.push_back(quoted(name));
    }
    // A moving mesh may leave these bounds, which only shape the index; rows outside are also
    // stored.
    const char* axes[] = {"x", "y", "z"};
    for (direction axis = 0; axis < 3; ++axis)
    {
        const scalar low = bounds.min()[axis], high = bounds.max()[axis];
        shaped.push_back
        (
            quoted(axes[axis]) + ": [" + number(low) + ", " + number(high) + "]"
        );
    }
    shaped.push_back
    (
        "\"time\": [" + number(time_.startTime().value()) + ", "
      + number(time_.endTime().value()) + "]"
    );
    const std::string more = members(dict_.subOrEmptyDict("options"));
    const std::string table =
        "{\"columns\": {" + joined(names) + "}, \"dimensions\": {" + joined(shaped)
      + "}, \"identity\": [" + joined(kept) + "], \"metadata\": " + metadata
      + (more.empty() ? "" : ", " + more) + "}";
    dictionary queued;
    queued.add("queue", 2);
    queued.merge(dict_.subOrEmptyDict("writer"));
    queued.merge(dict_.subOrEmptyDict("budget"));
    const std::string writer = members(queued);

    // Time steps begin with 1. A run from a checkpoint has its first step in the table already.
    const label after = time_.startTimeIndex() > 0 ? time_.startTimeIndex() : -1;
    handles_.reset(new handles());
    if (Pstream::parRun())
    {
        openTogether(table, writer, after);
    }
    else
    {
        openAlone(table, writer, after);
    }
    if (!failed_)
    {
        Info<< who_.c_str() << ": writing to " << location_.c_str() << endl;
    }
}

bool Foam::kubistRun::begin(const label step)
{
    if (!handles_) return false;
    if (!failed_) check(kubist_begin_step(handles_->writer, step), "beginning a step");
    // With a budget the other ranks wait for this one, so it takes part even after an error.
    if (failed_ && isTogether()) kubist_mpi_end_step(&handles_->mpi, nullptr, nullptr);
    return !failed_;
}

bool Foam::kubistRun::isTogether() const
{
    return handles_->parallel && !dict_.subOrEmptyDict("budget").empty();
}

void Foam::kubistRun::put
(
    const word& name,
    const scalar* values,
    const label count,
    const size_t stride
)
{
    if (failed_) return;
    const int type = sizeof(scalar) == 4 ? KUBIST_TYPE_F32 : KUBIST_TYPE_F64;
    check(kubist_put(handles_->writer, name.c_str(), type, values, count, stride), "a column");
}

void Foam::kubistRun::put
(
    const word& name,
    const label* values,
    const label count,
    const size_t stride
)
{
    if (failed_) return;
    const int type = sizeof(label) == 4 ? KUBIST_TYPE_I32 : KUBIST_TYPE_I64;
    check(kubist_put(handles_->writer, name.c_str(), type, values, count, stride), "a column");
}

#define KUBIST_PUT_VECTOR(Type, Code)                                                              \
    void Foam::kubistRun::put(const word& name, const std::vector<Type>& values)                   \
    {                                                                                              \
        if (failed_) return;                                                                       \
        check                                                                                      \
        (                                                                                          \
            kubist_put(handles_->writer, name.c_str(), Code, values.data(), values.size(), 0),     \
            "a column"                                                                             \
        );                                                                                         \
    }
KUBIST_PUT_VECTOR(double, KUBIST_TYPE_F64)
KUBIST_PUT_VECTOR(int32_t, KUBIST_TYPE_I32)
KUBIST_PUT_VECTOR(unsigned char, KUBIST_TYPE_BOOL)

void Foam::kubistRun::end()
{
    if (isTogether())
    {
        const int status = kubist_mpi_end_step(&handles_->mpi, nullptr, nullptr);
        if (status != KUBIST_STATUS_OK && !failed_)
        {
            fail(std::string("ending a step: ") + handles_->mpi.message);
        }
    }
    else if (!failed_)
    {
        check(kubist_end_step(handles_->writer, nullptr, nullptr), "ending a step");
    }
    if (!failed_) ++steps_;
}

void Foam::kubistRun::wait()
{
    if (failed_ || !handles_) return;
    check(kubist_wait(handles_->writer, INT64_MAX, 3600), "waiting for what is queued");
}

void Foam::kubistRun::close()
{
    if (!handles_) return;
    const double timeout = dict_.lookupOrDefault<scalar>("closeSeconds", 3600);
    handles& h = *handles_;
    std::string why;
    {
        const stall measured(*this);
        int status;
        if (h.parallel)
        {
            status = kubist_mpi_close(&h.mpi, timeout);
            why = status == KUBIST_STATUS_OK ? "" : h.mpi.message;
        }
        else
        {
            status = kubist_writer_close(h.writer, timeout);
            why = status == KUBIST_STATUS_OK ? "" : kubist_message();
            // A second close drops steps that could not be written in time.
            if (status == KUBIST_STATUS_BUSY) kubist_writer_abort(h.writer);
            kubist_table_close(h.table);
        }
    }
    handles_.reset();
    // With MPI, all ranks have the same status.
    if (!why.empty())
    {
        if (!failed_) fail("closing the table: " + why);
        return;
    }
    const scalar slowest = returnReduce(scalar(waited_), maxOp<scalar>());
    const scalar worst = returnReduce(scalar(worst_), maxOp<scalar>());
    Info<< who_.c_str() << ": " << steps_ << " steps to " << location_.c_str() << "; the slowest rank waited "
        << slowest << " s of " << scalar(now() - began_) << " s, " << slowest/max(steps_, label(1))
        << " s a step, " << worst << " s at worst" << endl;
}


Foam::kubistRun::stall::stall(kubistRun& run)
:
    run_(run),
    began_(now())
{}

Foam::kubistRun::stall::~stall()
{
    const double took = now() - began_;
    run_.waited_ += took;
    run_.worst_ = std::max(run_.worst_, took);
}
