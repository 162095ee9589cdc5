/* Records where parcels end in a Kubist table: see KubistEvents.H.
 *
 * Licensed under the GNU General Public License, version 3 or later: see LICENSE.
 */

#include "KubistEvents.H"

#include "fvMesh.H"
#include "processorPolyPatch.H"

template<class CloudType>
uint64_t Foam::KubistEvents<CloudType>::identity(const parcelType& p)
{
    return (uint64_t(uint32_t(p.origProc())) << 32) | uint32_t(p.origId());
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::keep(const hit& one, const bool deposited)
{
    for (direction i = 0; i < 3; ++i)
    {
        found_.place[i].push_back(one.place[i]);
        found_.velocity[i].push_back(one.velocity[i]);
    }
    found_.time.push_back(one.time);
    found_.diameter.push_back(one.diameter);
    found_.number.push_back(one.number);
    found_.origProcId.push_back(one.origProcId);
    found_.origId.push_back(one.origId);
    found_.patch.push_back(one.patch);
    found_.deposited.push_back(deposited);
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::open()
{
    const fvMesh& mesh = this->owner().mesh();
    const std::vector<kubistRun::column> columns
    {
        {"x", "f64", "m"}, {"y", "f64", "m"}, {"z", "f64", "m"}, {"time", "f64", "s"},
        {"U_x", "f64", "m/s"}, {"U_y", "f64", "m/s"}, {"U_z", "f64", "m/s"},
        {"d", "f64", "m"}, {"nParticle", "f64", ""}, {"origProcId", "i32", ""},
        {"origId", "i32", ""}, {"patch", "i32", ""}, {"deposited", "bool", ""}
    };
    std::string names;
    for (const polyPatch& patch : mesh.boundaryMesh())
    {
        // Processor patches come last, and differ from rank to rank.
        if (isA<processorPolyPatch>(patch)) break;
        names += (names.empty() ? "\"" : ", \"") + patch.name() + "\"";
    }
    run_->open
    (
        columns,
        {"origProcId", "origId"},
        mesh.bounds(),
        "{\"openfoam\": {\"clouds\": [\"" + this->owner().name() + "\"], \"patches\": ["
      + names + "]}}"
    );
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::commit(const label step)
{
    kubistRun::stall measured(*run_);
    if (!run_->isOpen()) open();
    if (run_->begin(step))
    {
        const word axes[] = {"x", "y", "z"};
        for (direction i = 0; i < 3; ++i)
        {
            run_->put(axes[i], found_.place[i]);
            run_->put("U_" + axes[i], found_.velocity[i]);
        }
        run_->put("time", found_.time);
        run_->put("d", found_.diameter);
        run_->put("nParticle", found_.number);
        run_->put("origProcId", found_.origProcId);
        run_->put("origId", found_.origId);
        run_->put("patch", found_.patch);
        run_->put("deposited", found_.deposited);
        run_->end();
    }
    found_ = columns();
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::settle()
{
    if (!hits_.empty())
    {
        for (const parcelType& p : this->owner())
        {
            const auto at = hits_.find(identity(p));
            if (at == hits_.end()) continue;
            if (!p.active()) keep(at->second, true);
            hits_.erase(at);
        }
        // The other parcels are no longer in the cloud.
        for (const auto& gone : hits_)
        {
            keep(gone.second, false);
        }
        hits_.clear();
    }
    const Time& time = this->owner().db().time();
    if (time.timeIndex() % interval_ == 0 || time.writeTime())
    {
        commit(time.timeIndex());
        // A solver that continues from this checkpoint does not see these events again.
        if (time.writeTime()) run_->wait();
    }
}


template<class CloudType>
Foam::KubistEvents<CloudType>::KubistEvents
(
    const dictionary& dict,
    CloudType& owner,
    const word& modelName
)
:
    CloudFunctionObject<CloudType>(dict, owner, modelName, typeName),
    hits_(),
    found_(),
    patches_(),
    interval_(max(label(1), this->coeffDict().template lookupOrDefault<label>("interval", 10))),
    run_
    (
        std::make_shared<kubistRun>
        (
            owner.db().time(),
            typeName + " " + modelName,
            this->coeffDict(),
            owner.name() + "-events.kubist"
        )
    )
{
    wordRes wanted(1, wordRe(".*", wordRe::REGEX));
    this->coeffDict().readIfPresent("patches", wanted);
    patches_ = wanted.matching(owner.mesh().boundaryMesh().names());
}

template<class CloudType>
Foam::KubistEvents<CloudType>::~KubistEvents()
{
    // With an open table all ranks take part, even without events.
    if (run_.use_count() == 1 && run_->isOpen())
    {
        const label last = this->owner().db().time().timeIndex();
        if (last % interval_ != 0 && !this->owner().db().time().writeTime()) commit(last);
    }
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::postMove
(
    parcelType& p,
    const scalar,
    const point&,
    bool&
)
{
    // A parcel continues from the point of its hit. One that stuck only gets older.
    if (p.active() && !hits_.empty()) hits_.erase(identity(p));
}

template<class CloudType>
void Foam::KubistEvents<CloudType>::postPatch(const parcelType& p, const polyPatch& pp, bool&)
{
    const label patch = pp.index();
    if (pp.coupled() || !patches_.found(patch))
    {
        hits_.erase(identity(p));
        return;
    }
    const Time& time = this->owner().db().time();
    const point place(p.position());
    hit one;
    for (direction i = 0; i < 3; ++i)
    {
        one.place[i] = place[i];
        one.velocity[i] = p.U()[i];
    }
    one.time = time.value() - (1 - p.stepFraction())*time.deltaTValue();
    one.diameter = p.d();
    one.number = p.nParticle();
    one.origProcId = p.origProc();
    one.origId = p.origId();
    one.patch = patch;
    hits_[identity(p)] = one;
}

template<class CloudType>
#if OPENFOAM < 2006
void Foam::KubistEvents<CloudType>::postEvolve()
#else
void Foam::KubistEvents<CloudType>::postEvolve(const typename parcelType::trackingData&)
#endif
{
    settle();
}
