const names=[{{names}}];
const columns=[{{columns}}];
const left={{left}},plot=document.getElementById('plot'),cursor=document.getElementById('cursor'),tip=document.getElementById('tip');
function size(n){let i=0;while(n>=1024&&i<4){n/=1024;i++}return (i?n.toFixed(2):n)+' '+['B','KiB','MiB','GiB','TiB'][i]}
plot.addEventListener('mousemove',e=>{
const r=plot.getBoundingClientRect(),x=Math.floor(e.clientX-r.left)-left,c=columns[x];
if(!c){tip.style.display='none';return}
let text=(c[0]/1e6).toFixed(3)+' ms',sum=0;
for(let k=names.length;k>0;k--){sum+=c[k];if(c[k])text+='\n'+names[k-1]+': '+size(c[k])}
tip.textContent=text+'\ntotal: '+size(sum);
tip.style.display='block';tip.style.left=(e.pageX+14)+'px';tip.style.top=(e.pageY+14)+'px';
cursor.setAttribute('x1',x+left);cursor.setAttribute('x2',x+left);
cursor.setAttribute('visibility','visible')});
plot.addEventListener('mouseleave',()=>{tip.style.display='none'});
