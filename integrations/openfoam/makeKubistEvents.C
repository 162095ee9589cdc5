/* Registers kubistEvents for the clouds of lagrangianIntermediate.
 *
 * Licensed under the GNU General Public License, version 3 or later: see LICENSE.
 */

#include "KubistEvents.H"
#include "basicKinematicCloud.H"
#include "basicKinematicCollidingCloud.H"
#include "basicKinematicMPPICCloud.H"
#include "basicReactingCloud.H"
#include "basicReactingMultiphaseCloud.H"
#include "basicThermoCloud.H"

// Like makeCloudFunctionObjectType, but usable several times in one file.
#define makeKubistEvents(CloudType)                                                                \
    typedef Foam::CloudType::kinematicCloudType CloudType##Kinematic;                              \
    defineNamedTemplateTypeNameAndDebug(Foam::KubistEvents<CloudType##Kinematic>, 0);              \
    Foam::CloudFunctionObject<CloudType##Kinematic>::adddictionaryConstructorToTable               \
    <                                                                                              \
        Foam::KubistEvents<CloudType##Kinematic>                                                   \
    > addKubistEvents##CloudType;

makeKubistEvents(basicKinematicCloud)
makeKubistEvents(basicKinematicCollidingCloud)
makeKubistEvents(basicKinematicMPPICCloud)
makeKubistEvents(basicThermoCloud)
makeKubistEvents(basicReactingCloud)
makeKubistEvents(basicReactingMultiphaseCloud)
