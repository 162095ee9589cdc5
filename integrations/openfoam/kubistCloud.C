/* Writes the parcels of a cloud into a Kubist table, step by step: see kubistCloud.H.
 *
 * Licensed under the GNU General Public License, version 3 or later: see LICENSE.
 */

#include "kubistCloud.H"

#include "addToRunTimeSelectionTable.H"
#include "cloud.H"
#include "fvMesh.H"

namespace Foam
{
namespace functionObjects
{
    defineTypeNameAndDebug(kubistCloud, 0);
    addToRunTimeSelectionTable(functionObject, kubistCloud, dictionary);
}
}

namespace
{

const char* axes[] = {"x", "y", "z"};

// The column name in a table of `kubist ingest` from files of the same cloud.
Foam::word columnOf(const Foam::word& field)
{
    return field == "origProc" ? "origProcId" : field;
}

// U_x, U_y, U_z; components of other types are numbered.
template<class Type>
Foam::word partOf(const Foam::word& field, const Foam::direction index)
{
    const Foam::direction count = Foam::pTraits<Type>::nComponents;
    if (count == 1) return columnOf(field);
    return columnOf(field) + "_" + (count == 3 ? Foam::word(axes[index]) : Foam::word(Foam::name(Foam::label(index))));
}

} // namespace


bool Foam::functionObjects::kubistCloud::wanted(const word& field) const
{
    return
        field == "origId" || field == "origProc"
     || fields_.empty() || fields_.match(field) || fields_.match(columnOf(field));
}

template<class Type>
void Foam::functionObjects::kubistCloud::addColumns
(
    const objectRegistry& fields,
    std::vector<kubistRun::column>& columns
) const
{
    typedef typename pTraits<Type>::cmptType cmptType;
    for (const word& field : fields.sortedNames<IOField<Type>>())
    {
        if (field == "position" || !wanted(field)) continue;
        for (direction i = 0; i < pTraits<Type>::nComponents; ++i)
        {
            columns.push_back
            ({
                partOf<Type>(field, i),
                kubistRun::typeOf(cmptType(0)),
                kubistRun::unitOf(field)
            });
        }
    }
}

template<class Type>
void Foam::functionObjects::kubistCloud::putFields(const objectRegistry& fields)
{
    typedef typename pTraits<Type>::cmptType cmptType;
    for (const word& field : fields.sortedNames<IOField<Type>>())
    {
        if (field == "position" || !wanted(field)) continue;
        const IOField<Type>& values = fields.lookupObject<IOField<Type>>(field);
        const cmptType* first = reinterpret_cast<const cmptType*>(values.cdata());
        for (direction i = 0; i < pTraits<Type>::nComponents; ++i)
        {
            const cmptType* begin = values.empty() ? nullptr : first + i;
            run_.put(partOf<Type>(field, i), begin, values.size(), sizeof(Type));
        }
    }
}

void Foam::functionObjects::kubistCloud::open(const objectRegistry& fields)
{
    std::vector<kubistRun::column> columns;
    for (const char* axis : axes)
    {
        columns.push_back({axis, kubistRun::typeOf(scalar(0)), "m"});
    }
    addColumns<label>(fields, columns);
    addColumns<scalar>(fields, columns);
    addColumns<vector>(fields, columns);
    addColumns<sphericalTensor>(fields, columns);
    addColumns<symmTensor>(fields, columns);
    addColumns<tensor>(fields, columns);
    columns.push_back({"time", "f64", "s"});
    for (const wordRe& field : fields_)
    {
        bool found = false;
        for (const word& there : fields.names())
        {
            found = found || field.match(there) || field.match(columnOf(there));
        }
        if (!found)
        {
            FatalErrorInFunction
                << name() << ": the cloud " << cloudName_ << " has no field " << field
                << "; it has " << flatOutput(fields.sortedNames()) << exit(FatalError);
        }
    }
    std::vector<word> identity{"origProcId", "origId"};
    if (!paths_)
    {
        identity.push_back("time");
    }
    run_.open
    (
        columns,
        identity,
        mesh_.bounds(),
        "{\"openfoam\": {\"clouds\": [\"" + cloudName_ + "\"]}}"
    );
}


Foam::functionObjects::kubistCloud::kubistCloud
(
    const word& name,
    const Time& runTime,
    const dictionary& dict
)
:
    fvMeshFunctionObject(name, runTime, dict),
    cloudName_(),
    fields_(),
    paths_(false),
    run_
    (
        runTime,
        typeName + " " + name,
        dict,
        dict.lookupOrDefault<word>("cloud", cloud::defaultName) + ".kubist"
    )
{
    read(dict);
}

bool Foam::functionObjects::kubistCloud::read(const dictionary& dict)
{
    fvMeshFunctionObject::read(dict);
    cloudName_ = dict.lookupOrDefault<word>("cloud", cloud::defaultName);
    fields_.clear();
    dict.readIfPresent("fields", fields_);
    const word sample(dict.lookupOrDefault<word>("sample", "records"));
    if (sample != "records" && sample != "paths")
    {
        FatalIOErrorInFunction(dict)
            << "sample: " << sample << " is neither records nor paths" << exit(FatalIOError);
    }
    paths_ = sample == "paths";
    return true;
}

bool Foam::functionObjects::kubistCloud::write()
{
    // On all ranks or on none, because all ranks create the clouds.
    const cloud* parcels = mesh_.cfindObject<cloud>(cloudName_);
    if (!parcels)
    {
        WarningInFunction
            << name() << ": there is no cloud " << cloudName_ << " yet; there are "
            << flatOutput(mesh_.sortedNames<cloud>()) << endl;
        return true;
    }
    kubistRun::stall measured(run_);
    objectRegistry fields
    (
        IOobject
        (
            "kubist::" + name() + "::" + cloudName_,
            mesh_.time().constant(),
            mesh_,
            IOobject::NO_READ,
            IOobject::NO_WRITE,
            false
        )
    );
    parcels->writeObjects(fields);
    const IOField<point>* positions = cloud::findIOPosition(fields);
    if (!positions)
    {
        FatalErrorInFunction
            << name() << ": the cloud " << cloudName_ << " does not hand out its parcels"
            << exit(FatalError);
    }
    if (!run_.isOpen())
    {
        open(fields);
    }
    if (!run_.begin(time_.timeIndex()))
    {
        return true;
    }
    const label count = positions->size();
    const scalar* first = reinterpret_cast<const scalar*>(positions->cdata());
    for (direction i = 0; i < 3; ++i)
    {
        run_.put(axes[i], count ? first + i : nullptr, count, sizeof(point));
    }
    putFields<label>(fields);
    putFields<scalar>(fields);
    putFields<vector>(fields);
    putFields<sphericalTensor>(fields);
    putFields<symmTensor>(fields);
    putFields<tensor>(fields);
    run_.put("time", std::vector<double>(count, time_.value()));
    run_.end();
    if (time_.writeTime())
    {
        run_.wait();
    }
    return true;
}

bool Foam::functionObjects::kubistCloud::execute()
{
    return true;
}

bool Foam::functionObjects::kubistCloud::end()
{
    run_.close();
    return true;
}
