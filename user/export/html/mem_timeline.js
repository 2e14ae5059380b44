const names=[{{names}}];
const columns=[{{columns}}];
const [plot,cursor,tip]=['plot','cursor','tip'].map(id=>document.getElementById(id));
function size(n){let i=0;while(n>=1024&&i<4){n/=1024;i++}return (i?n.toFixed(2):n)+' '+['B','KiB','MiB','GiB','TiB'][i]}
function leave(){tip.hidden=cursor.hidden=true}
plot.addEventListener('mousemove',e=>{
const r=plot.getBoundingClientRect(),x=Math.floor((e.clientX-r.left)/r.width*columns.length),c=columns[x];
if(!c)return leave();
let text=(c[0]/1e6).toFixed(3)+' ms',sum=0;
for(let k=names.length;k>0;k--){sum+=c[k];if(c[k])text+='\n'+names[k-1]+': '+size(c[k])}
tip.textContent=text+'\ntotal: '+size(sum);
tip.hidden=cursor.hidden=false;
const room=document.documentElement.clientWidth-tip.offsetWidth-4;
tip.style.left=Math.max(0,Math.min(e.pageX+14,room))+'px';tip.style.top=(e.pageY+14)+'px';
cursor.style.left=100*x/columns.length+'%'});
plot.addEventListener('mouseleave',leave);
